package inventory

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// ParseMAC reads a 6 byte MAC address with colons, hyphens, dots or nothing between its digits, in any letter case.
// Addresses that no single controller can have are refused.
func ParseMAC(s string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(s)
	switch {
	case err != nil || len(mac) != 6:
		return nil, fmt.Errorf("%s is not a MAC address of 6 bytes", quote(s))
	case [6]byte(mac) == [6]byte{}:
		return nil, errors.New("the MAC address is zero")
	case mac[0]&1 != 0:
		return nil, fmt.Errorf("%s is a broadcast or multicast MAC address", mac)
	}
	return mac, nil
}

// ParseIP reads an IPv4 or IPv6 address. An IPv4 address in IPv6 form becomes the IPv4 address it is.
func ParseIP(s string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(s)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%s is not an IPv4 or IPv6 address", quote(s))
	}
	return ip.Unmap(), nil
}

// quote shows a value in a message without repeating all of a long one.
func quote(s string) string {
	const most = 64
	if runes := []rune(s); len(runes) > most {
		return fmt.Sprintf("%q...", string(runes[:most]))
	}
	return fmt.Sprintf("%q", s)
}
