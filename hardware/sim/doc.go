// Package sim is a simulated site: racks whose components obey power, firmware, bring-up and decommission commands,
// take their time over it, and fail as scripted. It is an adapter like any other and must not know who calls it or why.
//
// No goroutine moves the simulation. An accepted command leaves effects with a due time in its rack, and whoever looks
// at the rack next, under the rack's lock, first settles what is due:
//
//	call -> faults -> [receipt] -> delay -> lock racks -> settle -> decide -> journal -> carry out -> answer
//
// The power of a component, L being the latency:
//
//	Off --on--> (L) On       On --off--> (L) Off       any --restart, reset--> Rebooting --> (L) On
//	a tray: any --last shelf of its rack turns Off--> Off and unreachable; reachable when a shelf is on again, and Off until
//	                                                     powered on; a shelf that reboots goes on feeding
//
// A command is in the journal before it has an effect that anybody can see, so a site opened again after a kill is in
// the state it had, acts in flight included. When the journal can't be written, the command is not done and says so.
package sim
