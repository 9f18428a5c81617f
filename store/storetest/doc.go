// Package storetest gives tests databases of their own, with the schema in
// place. A package that needs them has
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
//
// and its tests call New or Empty; they may be parallel. Tests of package store
// itself live in store_test, since this package imports store.
//
// The server is the first of these that there is:
//
//   - FLOW_TEST_DATABASE_URL: a PostgreSQL 14 or newer and a role that may
//     create databases. Any number of test processes may share it.
//   - a container, when a Docker engine answers at once;
//   - the embedded server, with the programs in FLOW_POSTGRES_BIN, the bundle's or
//     installed ones.
//
// It is started when the first test asks. Without any, tests fail; they are
// never skipped. A server of its own costs a package one to two seconds: the
// command in shared has one for a whole run of go test.
//
// On failure nothing stays behind that could disturb a later run, even when
// the test process is killed: the embedded server has a watchdog, a process
// that ends it and removes its files when the test process is gone; Docker has
// its own; on a shared server the next test process removes the databases
// of dead ones, which it knows by their having no session.
package storetest
