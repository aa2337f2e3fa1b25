package configs

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	_ "embed"

	"github.com/pelletier/go-toml/v2"

	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// Terminal is terminald's configuration file. Paths that are not absolute are taken
// from the folder the file lies in.
type Terminal struct {
	Name            string    `toml:"name"`              // the terminal's own name, in every ledger entry
	Language        string    `toml:"language"`          // fr or en: the first language of screens and slips
	TimeZone        string    `toml:"time_zone"`         // of slips and screens
	Data            string    `toml:"data"`              // folder of the ledger, the manifests and the policies
	Socket          string    `toml:"socket"`            // of terminalctl
	Keys            []string  `toml:"keys"`              // files of public keys that may sign manifests
	Signatures      int       `toml:"signatures"`        // how many of them must have signed
	ClaimKey        string    `toml:"claim_key"`         // file of central's public claim key, "" for none
	StandAlone      bool      `toml:"stand_alone"`       // there is no central: every pack of a block that lies here is active
	Central         Central   `toml:"central"`           // the link, for a terminal that does not stand alone
	AcceptScaled    bool      `toml:"accept_scaled"`     // pay demonstration blocks
	Operator        string    `toml:"operator"`          // who is signed on, until operators sign on themselves
	SignOn          bool      `toml:"sign_on"`           // operators sign on with a PIN before anything is paid
	ReleaseAtClose  bool      `toml:"release_at_close"`  // give the packs up with the Z of a day, so that other shops can pay their tickets over night
	AutoLockMinutes int       `toml:"auto_lock_minutes"` // idle time after which the counter locks, 0 for never
	Register        Register  `toml:"register"`          // of winners' identities
	ReserveMB       int64     `toml:"reserve_mb"`        // free space below which nothing is paid
	QuotaMB         int64     `toml:"quota_mb"`          // what manifests may take of the disk; only a linked terminal drops and fetches them
	Shop            Shop      `toml:"shop"`
	Screen          Screen    `toml:"screen"`
	Scanner         Scanner   `toml:"scanner"`
	Printer         Printer   `toml:"printer"`
	GPIO            GPIO      `toml:"gpio"`
	Sound           Sound     `toml:"sound"`
	Policy          Policy    `toml:"policy"`
	Allowance       Allowance `toml:"allowance"`
	Update          Update    `toml:"update"`
}

// Update is how this terminal's own software is replaced.
type Update struct {
	Agent string `toml:"agent"` // folder of terminalctl update agent, "" for software that nobody replaces by itself
	Quiet string `toml:"quiet"` // HH:MM-HH:MM, when nobody is expected at the counter; "" for never
}

// Hours are the begin and the end of the quiet hours, in minutes after midnight; both 0 for none.
func (u Update) Hours() (from, to int, err error) {
	if u.Quiet == "" {
		return 0, 0, nil
	}
	a, b, _ := strings.Cut(u.Quiet, "-")
	begin, err1 := time.Parse("15:04", a)
	end, err2 := time.Parse("15:04", b)
	if err := errors.Join(err1, err2); err != nil || begin.Equal(end) {
		return 0, 0, fmt.Errorf("update.quiet = %q: want the begin and the end of the quiet hours, as 02:00-05:00", u.Quiet)
	}
	return begin.Hour()*60 + begin.Minute(), end.Hour()*60 + end.Minute(), nil
}

// Central is where the terminal's central answers. The keys, the claim key and the name
// come with the enrolment (terminalctl enrol) and must not be configured beside it.
type Central struct {
	URL   string `toml:"url"`   // https://host:port
	Proxy string `toml:"proxy"` // http://host:port on the way there, "" for none
}

// Register is what the terminal keeps of identified winners, sealed to central's key.
type Register struct {
	Key       string `toml:"key"`        // file of central's public register key, "" where identified winners go to the payment centre
	SpanHours int    `toml:"span_hours"` // payments to one person within it are linked
	KeepDays  int    `toml:"keep_days"`  // a record is erased after this; one that central never took 30 days later (code monétaire et financier, L561-12: five years)
}

// Shop is what slips say of the point of sale.
type Shop struct {
	Name    string   `toml:"name"`
	Address []string `toml:"address"`
	Logo    string   `toml:"logo"` // file of a PNG, one pixel a dot, "" for none
}

// Screen is where the pages are served.
type Screen struct {
	Listen string `toml:"listen"` // host:port, loopback only; port 0 takes a free one
}

// Scanner is the barcode scanner's line.
type Scanner struct {
	Path     string `toml:"path"`
	Baud     int    `toml:"baud"`
	Parity   string `toml:"parity"`
	DataBits int    `toml:"data_bits"`
	Suffix   string `toml:"suffix"`  // any, or none for a scanner that sends no end mark
	Prefix   string `toml:"prefix"`  // before every code, "" for nothing
	IdleMS   int    `toml:"idle_ms"` // silence that ends a code, 0 for the default of the suffix
	Control  string `toml:"control"` // none, honeywell, datalogic, gm65 or ssi
}

// Printer is the receipt printer's line and model.
type Printer struct {
	Path     string `toml:"path"`
	Baud     int    `toml:"baud"`
	Flow     string `toml:"flow"`
	Profile  string `toml:"profile"`
	Profiles string `toml:"profiles"` // file of further profiles, "" for the shipped ones only

	ResultSlip string `toml:"result_slip"` // of checks, where the policy does not say it: centre, asked or each

	DrawerPin     int `toml:"drawer_pin"`      // of the cash drawer's socket, 2 or 5; 0 for no drawer there
	DrawerPulseMS int `toml:"drawer_pulse_ms"` // how long its coil is on
}

// GPIO is what hangs on the board's pins; a part without a pin is not there.
type GPIO struct {
	Busy          InputPin  `toml:"busy"`            // the printer's busy (DTR) line
	Power         OutputPin `toml:"power"`           // switches the printer's supply
	Drawer        OutputPin `toml:"drawer"`          // the transistor of the drawer's coil
	Win           OutputPin `toml:"win"`             // lamps
	Refuse        OutputPin `toml:"refuse"`          //
	Fault         OutputPin `toml:"fault"`           //
	Buzzer        OutputPin `toml:"buzzer"`          // one that sounds while it is on
	Tamper        InputPin  `toml:"tamper"`          // active while the case is open
	Pay           InputPin  `toml:"pay"`             // the button
	DrawerPulseMS int       `toml:"drawer_pulse_ms"` // how long the coil is on
	PowerOffMS    int       `toml:"power_off_ms"`    // how long the printer is off before it is switched on
	PowerSettleMS int       `toml:"power_settle_ms"` // from power to the first byte
}

// Sound is how verdicts are heard, besides the buzzer.
type Sound struct {
	Program []string `toml:"program"` // reads a WAV file from its standard input; empty for no sound
	Volume  int      `toml:"volume"`  // 0 (off) to 100
}

// InputPin is an input of the board.
type InputPin struct {
	Pin       string `toml:"pin"`        // as "GPIO17", or a line's own name
	ActiveLow bool   `toml:"active_low"` // low means pressed, open, busy
	Pull      string `toml:"pull"`       // up, down or none; "" keeps it inactive while nothing is connected
}

// OutputPin is an output of the board.
type OutputPin struct {
	Pin       string `toml:"pin"`
	ActiveLow bool   `toml:"active_low"` // low switches it on
}

// Policy are the limits, in minor units, while no signed policy that lies here has begun.
type Policy struct {
	Version           string `toml:"version"`
	Currency          string `toml:"currency"`
	ShopLimit         int64  `toml:"shop_limit_minor"`
	ConfirmCashPrize  int64  `toml:"confirm_cash_prize_minor"`
	ConfirmCashTotal  int64  `toml:"confirm_cash_total_minor"`
	IdentityPrize     int64  `toml:"identity_prize_minor"`
	IdentityTotalOver int64  `toml:"identity_total_over_minor"`
	ClaimDays         int    `toml:"claim_days"`
	WeakLimit         int64  `toml:"weak_limit_minor"`
}

// Allowance bounds what is paid and not acknowledged by central; 0 is no bound.
type Allowance struct {
	Claims int64 `toml:"claims"`
	Money  int64 `toml:"money_minor"`
}

// TerminalExample is the shipped example of a configuration, which a test loads.
//
//go:embed terminald.toml
var TerminalExample []byte

// LoadTerminal reads terminald's configuration from a file.
func LoadTerminal(path string) (Terminal, error) {
	text, err := readFile(path)
	if err != nil {
		return Terminal{}, fmt.Errorf("configuration: %w", err)
	}
	c, err := ParseTerminal(path, text)
	if err != nil {
		return Terminal{}, err
	}
	c.resolve(filepath.Dir(path))
	return c, nil
}

// maxTerminal bounds a configuration's file, many times what the longest one takes.
const maxTerminal = 1 << 20

// readFile reads a regular file. It waits for nobody, as opening a pipe would.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxTerminal {
		return nil, fmt.Errorf("%s: want a file of at most %d bytes", path, maxTerminal)
	}
	return io.ReadAll(io.LimitReader(f, maxTerminal))
}

// ParseTerminal reads the text of a configuration. The errors name file, line and column.
func ParseTerminal(name string, text []byte) (Terminal, error) {
	c := Terminal{Language: string(money.French), TimeZone: "Europe/Paris", Signatures: 1, ReserveMB: 64, QuotaMB: 20000, AutoLockMinutes: 10, Register: Register{SpanHours: 24, KeepDays: 1827},
		Screen: Screen{Listen: "127.0.0.1:8087"}, Scanner: Scanner{Baud: 9600, Parity: "none", DataBits: 8, Suffix: "any", Control: "none"},
		Printer: Printer{Baud: 9600, Flow: "none", Profile: "generic-80", ResultSlip: "centre", DrawerPulseMS: 100}, Update: Update{Quiet: "02:00-05:00"}, GPIO: GPIO{DrawerPulseMS: 200, PowerOffMS: 1000, PowerSettleMS: 500}, Sound: Sound{Volume: 60}}
	if err := Decode(name, text, &c); err != nil {
		return Terminal{}, err
	}
	if err := c.validate(); err != nil {
		return Terminal{}, fmt.Errorf("%s:\n%w", name, err)
	}
	return c, nil
}

// Encode writes a configuration that ParseTerminal reads as this one, every key of it. The
// errors are those of ParseTerminal.
func (c Terminal) Encode() ([]byte, error) {
	text, err := toml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	text = append([]byte("# terminald's configuration; terminald --example explains every key.\n"), text...)
	_, err = ParseTerminal("configuration", text)
	return text, err
}

func (c Terminal) validate() error {
	var errs []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("  "+format, args...))
		}
	}
	need(c.Name != "" && len(c.Name) <= 64 && !strings.ContainsAny(c.Name, " \t\n"), "name = %q: give the terminal a name of 1 to 64 bytes without spaces", c.Name)
	need(c.Language == "fr" || c.Language == "en", "language = %q: want \"fr\" or \"en\"", c.Language)
	_, err := time.LoadLocation(c.TimeZone)
	need(err == nil && c.TimeZone != "", "time_zone = %q: want a name as \"Europe/Paris\"", c.TimeZone)
	need(c.Data != "", "data: name the folder for the ledger and the manifests")
	need(c.Socket != "", "socket: name a path for terminalctl's socket")
	need(c.StandAlone != (c.Central.URL != ""), "stand_alone and central.url: give one of them, stand_alone = true for a terminal on its own or central.url for one that is linked")
	if c.StandAlone {
		need(len(c.Keys) > 0, "keys: name at least one file of a public key that signs manifests")
		need(c.Signatures >= 1 && c.Signatures <= max(1, len(c.Keys)), "signatures = %d: want 1 to the number of keys, %d", c.Signatures, len(c.Keys))
	} else {
		need(len(c.Keys) == 0 && c.ClaimKey == "", "keys, claim_key: a linked terminal has them from its enrolment; take them out")
		u, err := url.Parse(c.Central.URL)
		need(c.Central.URL == "" || err == nil && u.Scheme == "https" && u.Host != "", "central.url = %q: want it as \"https://central.example:8443\"", c.Central.URL)
	}
	proxy, err := url.Parse(c.Central.Proxy)
	need(c.Central.Proxy == "" || err == nil && proxy.Scheme == "http" && proxy.Port() != "" && proxy.User == nil && proxy.Path == "" && c.Central.URL != "",
		"central.proxy = %q: want it as \"http://proxy.example:3128\", beside central.url", c.Central.Proxy)
	need(c.AutoLockMinutes >= 0 && c.AutoLockMinutes <= 24*60, "auto_lock_minutes = %d: want 0 (never) to 1440", c.AutoLockMinutes)
	need(!c.ReleaseAtClose || c.SignOn && !c.StandAlone, "release_at_close: the packs come back with the next sign-on, from central: it needs sign_on = true and a [central]")
	need(!c.SignOn || c.Operator == "", "operator, sign_on: with sign_on = true the operator is whoever signs on; take operator out")
	need(c.Register.SpanHours >= 1 && c.Register.SpanHours <= 24*366, "register.span_hours = %d: want 1 to 8784", c.Register.SpanHours)
	need(c.Register.KeepDays >= 1 && c.Register.KeepDays <= 3660 && c.Register.KeepDays*24 >= c.Register.SpanHours, "register.keep_days = %d: want 1 to 3660, and no less than the span", c.Register.KeepDays)
	need(c.ReserveMB >= 1, "reserve_mb = %d: want 1 or more", c.ReserveMB)
	need(c.QuotaMB >= 1, "quota_mb = %d: want 1 or more; a block of 9 million tickets takes 72", c.QuotaMB)
	need(c.Shop.Name != "", "shop.name: slips need the name of the point of sale")
	need(loopback(c.Screen.Listen), "screen.listen = %q: want a loopback address and port, as \"127.0.0.1:8087\"", c.Screen.Listen)
	need(c.Scanner.Path != "", "scanner.path: name the scanner's port, best one under /dev/serial/by-id")
	need(c.Printer.Path != "", "printer.path: name the printer's port")
	need(c.Sound.Volume >= 0 && c.Sound.Volume <= 100, "sound.volume = %d: want 0 (off) to 100", c.Sound.Volume)
	need(len(c.Sound.Program) == 0 || c.Sound.Program[0] != "", "sound.program: name the program that plays, as [\"aplay\", \"-q\", \"-\"], or leave it empty for no sound")
	need(slices.Contains([]string{"centre", "asked", "each"}, c.Printer.ResultSlip), "printer.result_slip = %q: want \"centre\", \"asked\" or \"each\"", c.Printer.ResultSlip)
	need(slices.Contains([]int{0, 2, 5}, c.Printer.DrawerPin), "printer.drawer_pin: %d, want 2 or 5, the pins of the socket that open a drawer, or 0 for no drawer", c.Printer.DrawerPin)
	need(c.Printer.DrawerPulseMS >= 2 && c.Printer.DrawerPulseMS <= 510, "printer.drawer_pulse_ms: %d, want 2 to 510", c.Printer.DrawerPulseMS)
	need(c.Printer.DrawerPin == 0 || c.GPIO.Drawer.Pin == "", "printer.drawer_pin, gpio.drawer: each payment opens one drawer; leave one of the two out")
	need(c.Printer.Path != c.Scanner.Path || c.Printer.Path == "", "printer.path, scanner.path: both are %q; each device has a port of its own", c.Printer.Path)
	_, _, quiet := c.Update.Hours()
	need(quiet == nil, "%v", quiet)
	need(c.Allowance.Claims >= 0 && c.Allowance.Money >= 0, "allowance: want 0 (no bound) or more")
	if err := c.Limits().Validate(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			errs = append(errs, fmt.Errorf("  policy.%s", line))
		}
	}
	return errors.Join(errs...)
}

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// resolve makes the paths absolute, taken from dir.
func (c *Terminal) resolve(dir string) {
	abs := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	for _, p := range []*string{&c.Data, &c.Socket, &c.ClaimKey, &c.Register.Key, &c.Scanner.Path, &c.Printer.Path, &c.Printer.Profiles, &c.Shop.Logo, &c.Update.Agent} {
		abs(p)
	}
	for i := range c.Keys {
		abs(&c.Keys[i])
	}
}

// Limits is the policy as the deciding part takes it.
func (c Terminal) Limits() policy.Policy {
	p := c.Policy
	return policy.Policy{Version: p.Version, Currency: p.Currency, ShopLimit: money.Amount(p.ShopLimit), ConfirmCashPrize: money.Amount(p.ConfirmCashPrize),
		ConfirmCashTotal: money.Amount(p.ConfirmCashTotal), IdentityPrize: money.Amount(p.IdentityPrize),
		IdentityTotalOver: money.Amount(p.IdentityTotalOver), ClaimDays: p.ClaimDays, WeakLimit: money.Amount(p.WeakLimit)}
}

// Manifests is the folder of the blocks.
func (c Terminal) Manifests() string { return filepath.Join(c.Data, "manifests") }

// Updates is the folder in which the link puts an update that central offers.
func (c Terminal) Updates() string { return filepath.Join(c.Data, "updates") }

// Policies is the folder of the signed policies.
func (c Terminal) Policies() string { return filepath.Join(c.Data, "policies") }

// Identity is the folder of what enrolment gave.
func (c Terminal) Identity() string { return filepath.Join(c.Data, "identity") }

// Ledger is the ledger's file.
func (c Terminal) Ledger() string { return filepath.Join(c.Data, "ledger.db") }

// RegisterFile is the register of identities.
func (c Terminal) RegisterFile() string { return filepath.Join(c.Data, "register.db") }

// SlipKey is the secret key that signs the slips of a terminal on its own.
func (c Terminal) SlipKey() string { return filepath.Join(c.Data, "slip.key") }

// SlipPublic is the published key that proves the terminal's slips.
func (c Terminal) SlipPublic() string { return filepath.Join(c.Data, "slip.pub") }

// People is the operators' file.
func (c Terminal) People() string { return filepath.Join(c.Data, "people.db") }
