package provision

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

// System is the running terminal, read back. It is only read.
type System struct {
	Root       fs.FS // its files, from /
	Host       func() (string, error)
	Interfaces func() ([]Interface, error)
	SSID       func(iface string) (string, error)               // of the Wi-Fi that it is in
	Connect    func(ctx context.Context, hostPort string) error // and hangs up
}

// Interface is one that is up and no loopback.
type Interface struct {
	Name      string
	Addresses []netip.Prefix
}

// State is how a setting was found.
type State string

// The states of a setting.
const (
	Applied State = "ok"
	Differs State = "fail"
	NotSeen State = "skipped" // it is not wanted here
)

// Finding is one setting of the sheet, held against what the system does.
type Finding struct {
	Code, Name   string
	State        State
	Detail, Hint string // one line each, without secrets
}

// The settings that are read back. A code is read out by phone, so it never changes its
// meaning.
const (
	CheckName     = "B1"
	CheckConfig   = "B2"
	CheckAddress  = "B3"
	CheckRoute    = "B4"
	CheckDNS      = "B5"
	CheckWiFi     = "B6"
	CheckCentral  = "B7"
	CheckScanner  = "B8"
	CheckPrinter  = "B9"
	CheckLanguage = "B10"
	CheckEnrolled = "B11"
	CheckWiped    = "B12"
	CheckTrial    = "B13"
	CheckProgram  = "B14"
)

const (
	hintApply       = "look at: journalctl -u grattoir-provision; write the file onto the card again and restart"
	hintLine        = "look at the cable and its lamps, then: networkctl status"
	tableOfRoutes   = "proc/net/route"
	tableOfRoutesV6 = "proc/net/ipv6_route"
)

// Meaning is a row of the table of codes.
type Meaning struct{ Code, Name, Text string }

// Meanings are the settings that provision verify reads back, in order.
func Meanings() []Meaning {
	return []Meaning{
		{CheckName, "name", "the system and terminald have the terminal's name"},
		{CheckConfig, "configuration", "terminald's configuration file is the one of the provisioning file, byte by byte"},
		{CheckAddress, "address", "the network interface has the address that was given, or one from DHCP"},
		{CheckRoute, "route", "the default route leads through the gateway that was given, or through one from DHCP"},
		{CheckDNS, "name servers", "the name servers that were given are asked, or those from DHCP"},
		{CheckWiFi, "Wi-Fi", "the terminal is in the wireless network that was given"},
		{CheckCentral, "central", "central was reached, directly or through the proxy; or the provisioning file says that it is not needed"},
		{CheckScanner, "scanner", "the scanner's port is there and terminald works with it as it was configured"},
		{CheckPrinter, "printer", "the printer has answered with the profile that was given, and is ready"},
		{CheckLanguage, "language", "terminald speaks the language that was given"},
		{CheckEnrolled, "enrolment", "central has certified the terminal's key; or waits for its first contact where no network was given"},
		{CheckWiped, "secrets", "the provisioning file is gone from the card, and files with keys can be read by their owner alone"},
		{CheckTrial, "self-test", "the self-test's steps, T1 to T5"},
	}
}

// About is a finding that has not been judged.
func About(code string) Finding {
	i := slices.IndexFunc(Meanings(), func(m Meaning) bool { return m.Code == code })
	return Finding{Code: code, Name: Meanings()[i].Name, State: NotSeen}
}

// OK, Fail and Skip judge.
func (f Finding) OK(format string, args ...any) Finding {
	f.State, f.Detail = Applied, fmt.Sprintf(format, args...)
	return f
}

// Fail says what was seen instead, and what to do.
func (f Finding) Fail(hint, format string, args ...any) Finding {
	f.State, f.Hint, f.Detail = Differs, hint, fmt.Sprintf(format, args...)
	return f
}

// Skip says why it is not wanted.
func (f Finding) Skip(format string, args ...any) Finding {
	f.State, f.Detail = NotSeen, fmt.Sprintf(format, args...)
	return f
}

// Network reads back what a sheet says of the network: B3 to B6.
func (s System) Network(ctx context.Context, n Network) []Finding {
	address, route, dns, wifi := About(CheckAddress), About(CheckRoute), About(CheckDNS), About(CheckWiFi)
	if n.Kind == None {
		for _, f := range []*Finding{&address, &route, &dns, &wifi} {
			*f = f.Skip("the provisioning file gives no network")
		}
		return []Finding{address, route, dns, wifi}
	}
	list, err := s.Interfaces()
	if err != nil {
		address = address.Fail(hintLine, "the interfaces cannot be read: %v", err)
	} else {
		address = s.address(address, n, list)
	}
	if n.WiFi == nil {
		wifi = wifi.Skip("by cable")
	} else if ssid, err := s.SSID(Wireless); err != nil || ssid != n.WiFi.SSID {
		wifi = wifi.Fail("look at: wpa_cli status; the name and the passphrase may be wrong, or the signal weak", "%s is in %q (%v), not in %q", Wireless, ssid, err, n.WiFi.SSID)
	} else {
		wifi = wifi.OK("%s is in %q", Wireless, ssid)
	}
	return []Finding{address, s.route(route, n), s.servers(dns, n), wifi}
}

// wireless tells whether an interface is one, as the kernel says.
func (s System) wireless(name string) bool {
	_, err := fs.Stat(s.Root, path.Join("sys/class/net", name, "wireless"))
	return err == nil
}

func (s System) address(f Finding, n Network, list []Interface) Finding {
	var seen []string
	for _, i := range list {
		if s.wireless(i.Name) != (n.Kind == WiFi) {
			continue
		}
		for _, a := range i.Addresses {
			seen = append(seen, i.Name+" "+a.String())
			if n.Address.IsValid() && a == n.Address || !n.Address.IsValid() && !a.Addr().IsLinkLocalUnicast() {
				return f.OK("%s has %s", i.Name, a)
			}
		}
	}
	want := "an address from DHCP"
	if n.Address.IsValid() {
		want = n.Address.String()
	}
	return f.Fail(hintLine, "no %s interface has %s; seen: %s", n.Kind, want, orNothing(seen))
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

func (s System) route(f Finding, n Network) Finding {
	gates := s.gateways()
	var seen []string
	for _, g := range gates {
		seen = append(seen, g.String())
	}
	switch {
	case n.Gateway.IsValid() && !slices.Contains(gates, n.Gateway):
		return f.Fail(hintLine, "the default route does not lead through %s; seen: %s", n.Gateway, orNothing(seen))
	case len(gates) == 0:
		return f.Fail(hintLine, "there is no default route: DHCP has given none")
	}
	return f.OK("the default route leads through %s", orNothing(seen))
}

// gateways are those of the kernel's default routes that are up.
func (s System) gateways() (list []netip.Addr) {
	const up, gateway = 1, 2 // RTF_UP, RTF_GATEWAY
	for _, row := range s.rows(tableOfRoutes) {
		if len(row) < 8 || row[1] != "00000000" || row[7] != "00000000" {
			continue
		}
		flags, err := strconv.ParseUint(row[3], 16, 32)
		b, bad := hex.DecodeString(row[2])
		if err == nil && bad == nil && len(b) == 4 && flags&(up|gateway) == up|gateway {
			list = append(list, netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]})) // the kernel prints the host's order
		}
	}
	for _, row := range s.rows(tableOfRoutesV6) {
		if len(row) < 10 || strings.Trim(row[0], "0") != "" || row[1] != "00" {
			continue
		}
		flags, err := strconv.ParseUint(row[8], 16, 32)
		b, bad := hex.DecodeString(row[4])
		if err == nil && bad == nil && len(b) == 16 && flags&(up|gateway) == up|gateway {
			list = append(list, netip.AddrFrom16([16]byte(b)))
		}
	}
	return list
}

// rows are a table's lines in words; none where it cannot be read.
func (s System) rows(name string) (out [][]string) {
	f, err := s.Root.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(out) < 10_000; {
		out = append(out, strings.Fields(lines.Text()))
	}
	return out
}

func (s System) servers(f Finding, n Network) Finding {
	var list []netip.Addr
	for _, name := range []string{"run/systemd/resolve/resolv.conf", "etc/resolv.conf"} {
		for _, row := range s.rows(name) {
			if len(row) == 2 && row[0] == "nameserver" {
				if a, err := netip.ParseAddr(row[1]); err == nil {
					list = append(list, a)
				}
			}
		}
		if len(list) > 0 {
			break
		}
	}
	var seen []string
	for _, a := range list {
		seen = append(seen, a.String())
	}
	for _, want := range n.DNS {
		if !slices.Contains(list, want) {
			return f.Fail("look at: resolvectl status", "%s is not asked for names; seen: %s", want, orNothing(seen))
		}
	}
	if len(list) == 0 {
		return f.Fail(hintLine, "no name server is known: DHCP has given none")
	}
	return f.OK("names are asked of %s", orNothing(seen))
}

// Reach is B7: central's name resolves and its port, or the proxy's, answers.
func (s System) Reach(ctx context.Context, sheet Sheet, contact string) Finding {
	f := About(CheckCentral)
	switch to := sheet.Reached(); {
	case sheet.Central == nil:
		return f.Skip("not needed: the terminal stands alone, as the provisioning file says")
	case sheet.Network.Kind == None:
		return f.Skip("not needed at the bench: the provisioning file gives no network")
	case contact != "":
		return f.OK("%s has answered terminald: %s", sheet.Central.URL, contact)
	default:
		if err := s.Connect(ctx, to); err != nil {
			return f.Fail("look at the gateway, the name servers and the proxy; is central up?", "%s does not answer: %v", to, err)
		}
		return f.Fail("wait a minute and verify again; else: terminalctl doctor", "%s can be connected to, and central has not answered terminald yet", to)
	}
}

// Name is half of B1: the system's own name.
func (s System) Name(want, daemon string) Finding {
	f := About(CheckName)
	host, err := s.Host()
	switch {
	case err != nil || host != HostName(want):
		return f.Fail(hintApply, "the system is called %q (%v), not %q", host, err, HostName(want))
	case daemon == "":
		return f.Fail("systemctl status terminald", "the system is called %q, and terminald does not answer", host)
	case daemon != want:
		return f.Fail(hintApply, "terminald calls itself %q, not %q", daemon, want)
	}
	return f.OK("the system is %q, terminald is %q", host, daemon)
}

// HostName is a terminal's name as a host may have it.
func HostName(terminal string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(terminal)), "-")
}
