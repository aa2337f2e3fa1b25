package provision

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// Kind is how a terminal reaches others.
type Kind string

// The kinds of networks.
const (
	None     Kind = "none" // it never will: central is not needed at the bench
	Ethernet Kind = "ethernet"
	WiFi     Kind = "wifi"
)

// Network is the terminal's own network. Without an Address it asks DHCP.
type Network struct {
	Kind    Kind         `json:"kind"`
	Address netip.Prefix `json:"address,omitzero"` // static, with the length of its prefix
	Gateway netip.Addr   `json:"gateway,omitzero"`
	DNS     []netip.Addr `json:"dns,omitempty"`
	WiFi    *Station     `json:"wifi,omitempty"`
	Proxy   string       `json:"proxy,omitempty"` // http://HOST:PORT on the way to central, "" for none
}

// Station is a Wi-Fi network with a pre-shared key (WPA2).
type Station struct {
	SSID    string `json:"ssid"`
	Key     string `json:"key"`     // 64 hexadecimal digits, as PassphraseKey makes them: the passphrase itself is on no card
	Country string `json:"country"` // whose rules the radio keeps, as FR
}

// PassphraseKey is the key that a passphrase gives for one network (IEEE 802.11, annex J.4).
func PassphraseKey(ssid, passphrase string) (string, error) {
	if len(passphrase) < 8 || len(passphrase) > 63 || strings.ContainsFunc(passphrase, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errors.New("a passphrase has 8 to 63 letters, digits and signs of ASCII")
	}
	key, err := pbkdf2.Key(sha1.New, passphrase, []byte(ssid), 4096, 32)
	return hex.EncodeToString(key), err
}

var (
	keyForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	countryForm = regexp.MustCompile(`^[A-Z]{2}$`)
)

func (n Network) check() error {
	switch {
	case n.Kind != None && n.Kind != Ethernet && n.Kind != WiFi:
		return fmt.Errorf("network %.20q: want %s, %s or %s", n.Kind, None, Ethernet, WiFi)
	case n.Kind == None && (n.Address.IsValid() || n.Gateway.IsValid() || len(n.DNS) > 0 || n.Proxy != ""):
		return errors.New("network none: it has no address, gateway, name server or proxy")
	case (n.Kind == WiFi) != (n.WiFi != nil):
		return errors.New("network: a Wi-Fi's name and key belong to the kind wifi, and to no other")
	case !n.Address.IsValid() && n.Gateway.IsValid():
		return errors.New("network: a gateway without an address: DHCP gives both")
	case n.Address.IsValid() && (!n.Gateway.IsValid() || !n.Address.Masked().Contains(n.Gateway) || n.Gateway == n.Address.Addr()):
		return fmt.Errorf("network: the address %s needs another one in it as its gateway", n.Address)
	case n.Address.IsValid() && len(n.DNS) == 0:
		return errors.New("network: a static address needs a name server")
	case len(n.DNS) > 3:
		return fmt.Errorf("network: %d name servers, at most 3", len(n.DNS))
	}
	for _, a := range n.DNS {
		if !a.IsValid() || a.Zone() != "" || a.IsUnspecified() {
			return fmt.Errorf("network: the name server %s is no address", a)
		}
	}
	if err := checkProxy(n.Proxy); err != nil || n.WiFi == nil {
		return err
	}
	return n.WiFi.check()
}

func (s Station) check() error {
	switch {
	case len(s.SSID) < 1 || len(s.SSID) > 32:
		return errors.New("wifi: its name has 1 to 32 bytes")
	case s.Key != "" && !keyForm.MatchString(s.Key):
		return errors.New("wifi: the key has 64 hexadecimal digits, as made of the passphrase")
	case !countryForm.MatchString(s.Country):
		return fmt.Errorf("wifi: country %.10q: want two capital letters, as FR", s.Country)
	}
	return nil
}

func checkProxy(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Port() == "" || u.User != nil || u.Path+u.RawQuery+u.Fragment != "" {
		return errors.New("proxy: want http://HOST:PORT and nothing after it; one that asks for a password is not known here")
	}
	return nil
}

// Names of the files that a network makes, and the interface of a Wi-Fi.
const (
	NetworkFile    = "20-grattoir.network"
	SupplicantFile = "wpa_supplicant-" + Wireless + ".conf"
	Wireless       = "wlan0"
)

// networkd is the unit of systemd-networkd. Everything in it was checked for what it is:
// addresses, not texts.
func (n Network) networkd() []byte {
	var b strings.Builder
	b.WriteString("# Written by terminalctl provision apply.\n[Match]\n")
	if n.Kind == WiFi {
		fmt.Fprintf(&b, "Name=%s\n", Wireless)
	} else {
		b.WriteString("Type=ether\n")
	}
	b.WriteString("\n[Network]\n")
	if !n.Address.IsValid() {
		b.WriteString("DHCP=yes\n")
	} else {
		fmt.Fprintf(&b, "DHCP=no\nAddress=%s\nGateway=%s\n", n.Address, n.Gateway)
	}
	for _, a := range n.DNS {
		fmt.Fprintf(&b, "DNS=%s\n", a)
	}
	if len(n.DNS) > 0 && !n.Address.IsValid() {
		b.WriteString("\n[DHCPv4]\nUseDNS=no\n")
	}
	return []byte(b.String())
}

// supplicant is the configuration of wpa_supplicant. Name and key are hexadecimal, so
// nothing in them can end a quotation.
func (s Station) supplicant() []byte {
	return fmt.Appendf(nil, "# Written by terminalctl provision apply.\nctrl_interface=DIR=/run/wpa_supplicant\nupdate_config=0\ncountry=%s\nnetwork={\n\tssid=%s\n\tscan_ssid=1\n\tkey_mgmt=WPA-PSK WPA-PSK-SHA256\n\tpsk=%s\n}\n",
		s.Country, hex.EncodeToString([]byte(s.SSID)), s.Key)
}

// Reached is the host and port that the terminal connects to on its way to central: the
// proxy's where there is one.
func (s Sheet) Reached() string {
	text, port := s.Network.Proxy, "80"
	if text == "" && s.Central != nil {
		text, port = s.Central.URL, "443"
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	if u.Port() != "" {
		port = u.Port()
	}
	return net.JoinHostPort(u.Hostname(), port)
}
