package provision

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/manifest"
)

// provisioner is a lottery that may provision.
type provisioner struct {
	signer note.Signer
	ring   manifest.Keys
}

func newProvisioner(t testing.TB) provisioner {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, "provisioning")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := manifest.NewKeys(1, public)
	if err != nil {
		t.Fatal(err)
	}
	return provisioner{signer, ring}
}

func (p provisioner) sign(t testing.TB, s Sheet) []byte {
	t.Helper()
	signed, err := Sign(s, p.signer)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

const secretKey = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// sheet is a whole one: Wi-Fi, static, by a proxy, with an enrolment.
func sheet() Sheet {
	return Sheet{Terminal: "shop-0042", Serial: 7, Issued: time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC),
		Shop: Shop{ID: "tabac-12", Name: "Tabac de la Gare", Address: []string{"1 place de la Gare", "29000 Quimper"}},
		Network: Network{Kind: WiFi, Address: netip.MustParsePrefix("192.168.1.20/24"), Gateway: netip.MustParseAddr("192.168.1.1"),
			DNS: []netip.Addr{netip.MustParseAddr("9.9.9.9")}, Proxy: "http://proxy.example:3128", WiFi: &Station{SSID: "Café \"du\"\nport", Key: secretKey, Country: "FR"}},
		Central: &Central{URL: "https://central.example:8443", Pin: strings.Repeat("ab", 10)}, Config: "name = \"shop-0042\"\n", Enrolment: "grattoir enrolment v1\ncode SECRET-CODE\n"}
}

// TestSheetIsReadAsItWasWrittenAndNoOtherWay, and what nobody who may provision signed is
// no sheet.
func TestSheetIsReadAsItWasWrittenAndNoOtherWay(t *testing.T) {
	p, other := newProvisioner(t), newProvisioner(t)
	want := sheet()
	signed := p.sign(t, want)
	got, by, err := Open(signed, p.ring)
	if err != nil || got.Mark() != want.Mark() || len(by) != 1 {
		t.Fatalf("%+v by %v: %v", got, by, err)
	}
	for name, change := range map[string][]byte{
		"another's signature": other.sign(t, want), "a changed name": bytes.Replace(signed, []byte("shop-0042"), []byte("shop-0043"), 1), "nothing": {},
	} {
		if _, _, err := Open(change, p.ring); !errors.Is(err, ErrSheet) {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, _ := want.Text()
	for name, change := range map[string]string{
		"other kind of text": strings.Replace(text, "provisioning", "policy", 1), "unknown setting": strings.Replace(text, `"serial"`, `"later": 1, "serial"`, 1),
		"a blank more": strings.Replace(text, `"serial": 7`, `"serial":  7`, 1), "something behind": text + "{}\n", "half": text[:len(text)/2],
	} {
		if s, err := Parse(change); !errors.Is(err, ErrSheet) || s.Terminal != "" || strings.Contains(fmt.Sprint(err), "SECRET") {
			t.Errorf("%s: %+v %v", name, s, err)
		}
	}
	public, _ := want.Public().Text()
	if strings.Contains(public, "SECRET") || strings.Contains(public, secretKey) || want.Network.WiFi.Key != secretKey {
		t.Errorf("a secret is shown: %s", public)
	}
}

func FuzzParse(f *testing.F) {
	text, err := sheet().Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(heading + "{}\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := s.Text(); err != nil || again != text {
			t.Errorf("%q is written %q: %v", text, again, err)
		}
	})
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Sheet){
		"no name":                        func(s *Sheet) { s.Terminal = "" },
		"a name that is a path":          func(s *Sheet) { s.Terminal = "../x" },
		"serial 0":                       func(s *Sheet) { s.Serial = 0 },
		"gateway outside":                func(s *Sheet) { s.Network.Gateway = netip.MustParseAddr("10.0.0.1") },
		"gateway is the terminal":        func(s *Sheet) { s.Network.Gateway = s.Network.Address.Addr() },
		"static without name server":     func(s *Sheet) { s.Network.DNS = nil },
		"gateway with DHCP":              func(s *Sheet) { s.Network.Address = netip.Prefix{} },
		"Wi-Fi by cable":                 func(s *Sheet) { s.Network.Kind = Ethernet },
		"Wi-Fi without one":              func(s *Sheet) { s.Network.WiFi = nil },
		"a passphrase as a key":          func(s *Sheet) { s.Network.WiFi.Key = "correct horse" },
		"a country of three letters":     func(s *Sheet) { s.Network.WiFi.Country = "FRA" },
		"a proxy with a password":        func(s *Sheet) { s.Network.Proxy = "http://a:b@proxy:3128" },
		"a proxy without a port":         func(s *Sheet) { s.Network.Proxy = "http://proxy" },
		"none with a proxy":              func(s *Sheet) { s.Network = Network{Kind: None, Proxy: "http://proxy:1"} },
		"central without TLS":            func(s *Sheet) { s.Central.URL = "http://central.example" },
		"enrolment without central":      func(s *Sheet) { s.Central, s.Keys = nil, []string{"k"} },
		"alone without a key":            func(s *Sheet) { s.Central, s.Enrolment = nil, "" },
		"a line feed in the shop's name": func(s *Sheet) { s.Shop.Name = "a\nb" },
	} {
		s := sheet()
		change(&s)
		if _, err := s.Text(); !errors.Is(err, ErrSheet) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPassphraseKeyIsTheStandards: IEEE 802.11-2020, annex J.4.2, first vector.
func TestPassphraseKeyIsTheStandards(t *testing.T) {
	if key, err := PassphraseKey("IEEE", "password"); err != nil || key != "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e" {
		t.Errorf("%s %v", key, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 64), "with a\nline"} {
		if _, err := PassphraseKey("IEEE", bad); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// card is a medium in memory, flashed: a partition table, and the first partition at 4 MiB.
type card struct {
	b     []byte
	cut   int // writes end after so many bytes, 0 for all
	flip  bool
	syncs int
}

func newCard() *card {
	c := &card{b: make([]byte, 8<<20)}
	c.b[510], c.b[511], c.b[446+4] = 0x55, 0xaa, 0x0c
	c.partition(0, 4<<20, 2<<20)
	return c
}

func (c *card) partition(i int, at, size uint32) {
	e := c.b[446+16*i:]
	e[4] = 0x83
	binary.LittleEndian.PutUint32(e[8:], at/512)
	binary.LittleEndian.PutUint32(e[12:], size/512)
}
func (c *card) Size() int64 { return int64(len(c.b)) }
func (c *card) Sync() error { c.syncs++; return nil }
func (c *card) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(c.b).ReadAt(p, off)
}
func (c *card) WriteAt(p []byte, off int64) (int, error) {
	n := len(p)
	if c.cut > 0 {
		n = c.cut
	}
	copy(c.b[off:], p[:n])
	if c.flip {
		c.b[off+100] ^= 1
	}
	return len(p), nil
}

// TestSlotKeepsANoteAndTouchesNothingElse, is empty after it was wiped, and one that was
// cut in the middle is damaged, never half a note.
func TestSlotKeepsANoteAndTouchesNothingElse(t *testing.T) {
	c := newCard()
	before := bytes.Clone(c.b)
	if _, err := ReadSlot(c); !errors.Is(err, ErrEmpty) {
		t.Fatalf("of a flashed card: %v", err)
	}
	long, short := bytes.Repeat([]byte("x"), MaxNote), []byte("the note")
	for _, text := range [][]byte{long, short, {}} {
		if err := WriteSlot(c, text); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadSlot(c); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes come back as %d: %v", len(text), len(got), err)
		}
	}
	if !bytes.Equal(c.b[:SlotAt], before[:SlotAt]) || !bytes.Equal(c.b[SlotAt+slotSize:], before[SlotAt+slotSize:]) || c.syncs == 0 {
		t.Error("something outside the slot was written, or nothing was synced")
	}
	if err := WriteSlot(c, append(long, 'x')); !errors.Is(err, ErrSlot) {
		t.Errorf("too long: %v", err)
	}
	if err := WipeSlot(c); err != nil || !bytes.Equal(c.b, before) {
		t.Errorf("after the wipe the card is not as it was: %v", err)
	}
	for _, cut := range []int{1, 16, 20, slotHead, slotHead + 3} {
		c := newCard()
		c.cut = cut
		if err := WriteSlot(c, short); !errors.Is(err, ErrSlot) {
			t.Errorf("cut at %d: not noticed: %v", cut, err)
		}
		if got, err := ReadSlot(c); err == nil {
			t.Errorf("cut at %d: it reads as %q", cut, got)
		}
	}
	c.flip = true
	if err := WriteSlot(c, short); !errors.Is(err, ErrSlot) {
		t.Errorf("a flipped bit: %v", err)
	}
}

// TestCardOfAnotherSystemIsLeftAlone: its partition lies where the slot is, or its data, or
// it is no card of ours at all.
func TestCardOfAnotherSystemIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*card){
		"a partition over the slot":  func(c *card) { c.partition(0, 1<<20, 4<<20) },
		"a fourth one over it":       func(c *card) { c.partition(3, 2<<20+64<<10, 1<<20) },
		"something else in it":       func(c *card) { c.b[SlotAt+5000] = 1 },
		"no partition table":         func(c *card) { c.b[511] = 0 },
		"smaller than where it lies": func(c *card) { c.b = c.b[:2<<20] },
	} {
		c := newCard()
		change(c)
		before := bytes.Clone(c.b)
		if err := errors.Join(WriteSlot(c, []byte("x")), WipeSlot(c)); !errors.Is(err, ErrSlot) || !bytes.Equal(c.b, before) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// shop is a terminal in folders, with a device that counts its enrolments.
type shop struct {
	Target
	root     string
	enrolled []string
	waiting  bool
}

func newShop(t *testing.T) *shop {
	s := &shop{root: t.TempDir()}
	s.Target = Target{Config: filepath.Join(s.root, "etc/terminald.toml"), Networkd: filepath.Join(s.root, "net"), Supplicant: filepath.Join(s.root, "wpa"),
		Now: func() time.Time { return time.Date(1970, 1, 1, 0, 1, 0, 0, time.UTC) }, Waiting: func() bool { return s.waiting },
		Check: func(config, terminal string) error {
			if config != "name = \""+terminal+"\"\n" {
				return errors.New("no such configuration")
			}
			return nil
		},
		Enrol: func(file string, again bool) error {
			if len(s.enrolled) > 0 && !again {
				return errors.New("enrolled already")
			}
			s.enrolled, s.waiting = append(s.enrolled, file), true
			return nil
		}}
	return s
}

func (s *shop) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// TestSheetIsAppliedOnceWholeAndByARisingSerial.
func TestSheetIsAppliedOnceWholeAndByARisingSerial(t *testing.T) {
	p, s := newProvisioner(t), newShop(t)
	first := sheet()
	signed := p.sign(t, first)
	r, changed, err := s.Apply(signed, p.ring)
	if err != nil || !changed || r.Mark != first.Mark() {
		t.Fatalf("%+v %v %v", r, changed, err)
	}
	if got := s.read(t, "net/"+NetworkFile); !strings.Contains(got, "Name=wlan0\n") || !strings.Contains(got, "Address=192.168.1.20/24\nGateway=192.168.1.1\nDNS=9.9.9.9\n") {
		t.Error(got)
	}
	wpa := s.read(t, "wpa/"+SupplicantFile)
	if !strings.Contains(wpa, "\tssid=436166c3a92022647522") || !strings.Contains(wpa, "\tpsk="+secretKey+"\n") || strings.Count(wpa, "\n") != 10 {
		t.Error(wpa) // the line feed and the quotes of the name are hexadecimal
	}
	if info, err := os.Stat(filepath.Join(s.root, "wpa", SupplicantFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the key: %v %v", info.Mode(), err)
	}
	record := s.read(t, "etc/"+RecordName)
	if strings.Contains(record, secretKey) || strings.Contains(record, "SECRET") || !strings.Contains(record, "192.168.1.20/24") {
		t.Errorf("the record: %s", record)
	}
	if _, changed, err := s.Apply(signed, p.ring); err != nil || changed || len(s.enrolled) != 1 {
		t.Errorf("again: changed %v, %d enrolments, %v", changed, len(s.enrolled), err)
	}

	later := sheet()
	later.Network = Network{Kind: Ethernet}
	for _, c := range []struct {
		name   string
		change func(*Sheet)
		want   error
	}{
		{"another of the same serial", func(s *Sheet) {}, ErrOlder},
		{"an older one", func(s *Sheet) { s.Serial = 6 }, ErrOlder},
		{"another terminal's", func(s *Sheet) { s.Serial, s.Terminal, s.Config = 8, "shop-0043", "name = \"shop-0043\"\n" }, ErrOther},
	} {
		other := later
		c.change(&other)
		if _, _, err := s.Apply(p.sign(t, other), p.ring); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := s.Apply(newProvisioner(t).sign(t, later), p.ring); !errors.Is(err, ErrSheet) {
		t.Errorf("another lottery's: %v", err)
	}
	if got := s.read(t, "wpa/"+SupplicantFile); got != wpa || len(s.enrolled) != 1 {
		t.Error("what was refused has changed something")
	}
	later.Serial, later.Enrolment = 8, ""
	if r, changed, err := s.Apply(p.sign(t, later), p.ring); err != nil || !changed || r.Sheet.Serial != 8 {
		t.Fatalf("a newer one: %+v %v", r, err)
	}
	if s.read(t, "wpa/"+SupplicantFile) != "" || !strings.Contains(s.read(t, "net/"+NetworkFile), "Type=ether\n") || len(s.enrolled) != 1 {
		t.Error("the newer one is not in force, or it has enrolled again")
	}
}

// TestApplyIsWholeWhereverThePowerGoes: after each step it begins anew and ends the same,
// and the identity is one that works.
func TestApplyIsWholeWhereverThePowerGoes(t *testing.T) {
	p, whole := newProvisioner(t), newShop(t)
	signed := p.sign(t, sheet())
	var steps []string
	whole.step = func(name string) { steps = append(steps, name) }
	if _, _, err := whole.Apply(signed, p.ring); err != nil || len(steps) != 5 {
		t.Fatalf("%v, steps %v", err, steps)
	}
	for at := range steps {
		s, n := newShop(t), 0
		s.step = func(string) {
			if n++; n == at+1 {
				panic("power")
			}
		}
		func() {
			defer func() { _ = recover() }()
			_, _, _ = s.Apply(signed, p.ring)
		}()
		s.step = nil
		if _, err := LoadRecord(s.Config); !errors.Is(err, ErrEmpty) && at < len(steps)-1 {
			t.Errorf("cut after %s: the record is there before the rest: %v", steps[at], err)
		}
		if _, _, err := s.Apply(signed, p.ring); err != nil {
			t.Errorf("cut after %s: %v", steps[at], err)
		}
		for _, name := range []string{"etc/terminald.toml", "etc/" + RecordName, "net/" + NetworkFile, "wpa/" + SupplicantFile} {
			if got, want := s.read(t, name), whole.read(t, name); got != want {
				t.Errorf("cut after %s: %s is %q, want %q", steps[at], name, got, want)
			}
		}
		if len(s.enrolled) == 0 {
			t.Errorf("cut after %s: never enrolled", steps[at])
		}
	}
}

// TestDroppedNoteIsGoneAfterItsUse.
func TestDroppedNoteIsGoneAfterItsUse(t *testing.T) {
	dir := t.TempDir()
	if err := Drop(filepath.Join(dir, "not-mounted"), []byte("x")); err == nil {
		t.Error("a folder was made for a partition that is not there")
	}
	if err := Drop(dir, []byte("the note")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, DropFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	held, err := os.Open(path) // what another still has open shows what the disk kept
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for range 2 {
		if err := Wipe(path); err != nil {
			t.Fatal(err)
		}
	}
	left := make([]byte, 8)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the note is still there")
	}
	if _, err := held.ReadAt(left, 0); err != nil || !bytes.Equal(left, make([]byte, 8)) {
		t.Errorf("its content was left on the disk: %q %v", left, err)
	}
}

// running is a system as the sheet wants it.
func system() (System, fstest.MapFS) {
	files := fstest.MapFS{
		"proc/net/route": {Data: []byte("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
			"wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\nwlan0\t0001A8C0\t00000000\t0001\t0\t0\t600\t00FFFFFF\t0\t0\t0\n")},
		"run/systemd/resolve/resolv.conf": {Data: []byte("# a comment\nnameserver 9.9.9.9\nsearch .\n")},
		"sys/class/net/wlan0/wireless/x":  {Data: []byte("")},
	}
	return System{Root: files, Host: func() (string, error) { return "shop-0042", nil }, SSID: func(string) (string, error) { return sheet().Network.WiFi.SSID, nil },
		Interfaces: func() ([]Interface, error) {
			return []Interface{{"eth0", []netip.Prefix{netip.MustParsePrefix("10.0.0.5/8")}}, {"wlan0", []netip.Prefix{netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("192.168.1.20/24")}}}, nil
		},
		Connect: func(context.Context, string) error { return nil }}, files
}

// TestEachSettingOfTheNetworkIsReadBackFromTheSystem: one that is not in force is found, and
// no other is blamed for it.
func TestEachSettingOfTheNetworkIsReadBackFromTheSystem(t *testing.T) {
	judged := func(s System, n Network) (bad []string) {
		for _, f := range s.Network(t.Context(), n) {
			if f.State == Differs {
				bad = append(bad, f.Code)
				if f.Hint == "" || f.Detail == "" {
					t.Errorf("%+v says too little", f)
				}
			}
		}
		return bad
	}
	static := sheet().Network
	dhcp := static
	dhcp.Address, dhcp.Gateway, dhcp.DNS = netip.Prefix{}, netip.Addr{}, nil
	for name, c := range map[string]struct {
		change func(*System, fstest.MapFS)
		want   []string // of the static sheet
		dhcp   []string
	}{
		"all as wanted": {func(*System, fstest.MapFS) {}, nil, nil},
		"another address": {func(s *System, _ fstest.MapFS) {
			s.Interfaces = func() ([]Interface, error) {
				return []Interface{{"wlan0", []netip.Prefix{netip.MustParsePrefix("192.168.1.21/24")}}}, nil
			}
		}, []string{CheckAddress}, nil},
		"only by cable": {func(s *System, _ fstest.MapFS) {
			s.Interfaces = func() ([]Interface, error) { return []Interface{{"eth0", []netip.Prefix{static.Address}}}, nil }
		}, []string{CheckAddress}, []string{CheckAddress}},
		"only a link-local address": {func(s *System, _ fstest.MapFS) {
			s.Interfaces = func() ([]Interface, error) {
				return []Interface{{"wlan0", []netip.Prefix{netip.MustParsePrefix("169.254.3.4/16")}}}, nil
			}
		}, []string{CheckAddress}, []string{CheckAddress}},
		"another gateway": {func(_ *System, files fstest.MapFS) {
			files["proc/net/route"].Data = bytes.Replace(files["proc/net/route"].Data, []byte("0101A8C0"), []byte("FE01A8C0"), 1)
		}, []string{CheckRoute}, nil},
		"a route that is down": {func(_ *System, files fstest.MapFS) {
			files["proc/net/route"].Data = bytes.Replace(files["proc/net/route"].Data, []byte("\t0003\t"), []byte("\t0002\t"), 1)
		}, []string{CheckRoute}, []string{CheckRoute}},
		"another name server": {func(_ *System, files fstest.MapFS) {
			files["run/systemd/resolve/resolv.conf"].Data = []byte("nameserver 8.8.8.8\n")
		}, []string{CheckDNS}, nil},
		"no name server": {func(_ *System, files fstest.MapFS) { delete(files, "run/systemd/resolve/resolv.conf") }, []string{CheckDNS}, []string{CheckDNS}},
		"the neighbour's Wi-Fi": {func(s *System, _ fstest.MapFS) {
			s.SSID = func(string) (string, error) { return "neighbour", nil }
		}, []string{CheckWiFi}, []string{CheckWiFi}},
	} {
		s, files := system()
		c.change(&s, files)
		if got := judged(s, static); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := judged(s, dhcp); !slices.Equal(got, c.dhcp) {
			t.Errorf("%s, by DHCP: %v, want %v", name, got, c.dhcp)
		}
	}
	s, _ := system()
	if got := judged(s, Network{Kind: None}); got != nil {
		t.Errorf("with no network wanted: %v", got)
	}
	six := Network{Kind: WiFi, WiFi: static.WiFi, Gateway: netip.MustParseAddr("2001:db8::1"), Address: netip.MustParsePrefix("2001:db8::5/64"), DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}}
	s, files := system()
	files["proc/net/ipv6_route"] = &fstest.MapFile{Data: []byte(strings.Repeat("0", 32) + " 00 " + strings.Repeat("0", 32) + " 00 20010db8000000000000000000000001 00000400 00000001 00000000 00000003    wlan0\n")}
	files["run/systemd/resolve/resolv.conf"].Data = []byte("nameserver 2001:db8::53\n")
	s.Interfaces = func() ([]Interface, error) { return []Interface{{"wlan0", []netip.Prefix{six.Address}}}, nil }
	if got := judged(s, six); got != nil || six.check() != nil {
		t.Errorf("IPv6: %v %v", got, six.check())
	}
}

func TestNameAndCentralAreJudgedByWhoKnows(t *testing.T) {
	s, _ := system()
	for _, c := range []struct {
		daemon string
		want   State
	}{{"shop-0042", Applied}, {"", Differs}, {"T-0001", Differs}} {
		if f := s.Name("shop-0042", c.daemon); f.State != c.want {
			t.Errorf("terminald is %q: %+v", c.daemon, f)
		}
	}
	if f := s.Name("shop-0043", "shop-0043"); f.State != Differs {
		t.Errorf("the system has the old name: %+v", f)
	}
	var asked string
	s.Connect = func(_ context.Context, to string) error { asked = to; return errors.New("refused") }
	if f := s.Reach(t.Context(), sheet(), ""); f.State != Differs || asked != "proxy.example:3128" {
		t.Errorf("asked %q: %+v", asked, f)
	}
	if f := s.Reach(t.Context(), sheet(), "a minute ago"); f.State != Applied {
		t.Errorf("%+v", f)
	}
	offline := sheet()
	offline.Network = Network{Kind: None}
	alone := sheet()
	alone.Central = nil
	for _, sheet := range []Sheet{offline, alone} {
		if f := s.Reach(t.Context(), sheet, ""); f.State != NotSeen || !strings.Contains(f.Detail, "not needed") {
			t.Errorf("%+v", f)
		}
	}
}
