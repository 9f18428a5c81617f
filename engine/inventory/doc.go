// Package inventory owns the recorded racks, components, BMCs and NVLink domains: what may be written, what readers are
// shown, which of them the targets of a request mean, and what the last comparison with the actual inventory found.
//
// A write is one transaction: either all of a rack is recorded or nothing of it. What is wrong with a request is a
// fault of package fault that names the field; who holds a key already is found before the insert, and again when a
// concurrent write was faster. Reads are snapshots whose number of statements does not depend on how much they
// return. When the database is away every call fails and changes nothing.
//
// Nothing here runs tasks, touches hardware or knows messages and codes of the API.
package inventory
