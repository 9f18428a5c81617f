// Package hardwaretest holds the contract of hardware adapters as tests: every adapter runs Run and must pass.
//
// It owns what can be seen through the capability interfaces alone and must not know any adapter. What only some
// adapters can be made to do, such as losing a reply, comes through optional hooks; without the hook the check skips.
package hardwaretest
