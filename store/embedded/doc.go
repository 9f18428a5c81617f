// Package embedded runs Flow's own PostgreSQL: it finds the programs, makes the
// cluster, starts the server, keeps it alive and stops it with Flow.
//
// It owns everything named postgres* in Flow's data directory:
//
//	postgres/          the cluster, and the socket unless its path is too long
//	postgres.new-*     a cluster being made; without worth once Flow is gone
//	postgres.log       what the server says, bounded; the part before is postgres.log.1
//	postgres-bin/NAME  the programs of the bundle, unpacked once
//
// It knows nothing of schemas, tables or pools: it hands out a URL.
//
// The life of a server, seen from here:
//
//	         left by a killed Flow, healthy, as we would start it
//	start ──────────────────────────────────────────────────────────┐
//	  │  left, but other settings, version or no answer             ▼
//	  ├───────────────────────────► stop it ──┐                  running ──► Stop
//	  │  nothing runs (stale pid files go)    ▼                     ▲ │
//	  └───────────────────────────────────► launch ────────────────┘ │ died
//	                                          ▲                        │
//	                                          └──── wait, at most 10s ◄┘
//
// A killed Flow leaves its server running on purpose: the next one finds it
// warm. That is why the server is a session of its own (no Ctrl-C, no hang-up
// reaches it) and dies with nobody. A service manager that ends the whole
// control group would stop the server under Flow while it drains; a systemd
// unit wants KillMode=mixed.
//
// On failure Start says in one sentence what is wrong and with which path, and
// leaves nothing running that it started. Later failures are logged and
// retried for as long as Flow runs; the data is PostgreSQL's to keep safe.
package embedded
