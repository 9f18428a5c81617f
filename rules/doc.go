// Package rules holds the documents that say how an operation runs on a rack: it reads and checks them, carries the
// built-in ones, decides which one applies, and makes the frozen plan a task is carried out by.
//
// A document becomes a plan in three steps, each a function of its arguments alone:
//
//	document --Parse--> Definition --Validate--> fit to be stored --NewPlan--> Plan, stored with the task
//
// It must not do I/O, read the clock, or know tasks, jobs or the database. A document that is wrong is answered with
// every problem in it at once; a plan is either whole or refused. A stored plan is never re-read from its rule, so an
// edited rule or a newer Flow cannot bend a task in flight.
package rules
