// Package task owns the life of a task outside of its execution: submission, conflicts, cancelling, the report, and
// what watchers see of it.
//
// A task is one operation on one rack with a frozen plan. It is admitted in one transaction together with the job that
// will start it; what happens then is package exec's. One that conflicts may wait: whoever ends a task of a rack promotes
// the next ones in the same transaction, with the rack locked. Nothing here touches hardware. When the database is away
// every call fails and changes nothing.
//
//	        +---------+  Promote   +---------+   Start   +---------+  Finish   +-----------+
//	------> | waiting | ---------> | pending | --------> | running | --------> | completed |
//	queued  +---------+            +---------+           +---------+           +-----------+
//	             |                    |    |               |    |
//	             | Expire,            |    | Fail     Fail |    | Cancel
//	             | Cancel      Cancel |    |               |    |
//	             v                    |    v               v    |
//	        +------------+            |   +--------+------------+
//	        | terminated | <----------+   | failed | <----------
//	        +------------+ <----------------------------------- (Cancel)
package task
