package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"grattoir/cmd/internal/cli"
	"grattoir/device/health"
	"grattoir/firmware/provision"
	"grattoir/sync/uplink"
	"grattoir/sync/wire"
)

func provisionVerifyCommand() *cobra.Command {
	v := verification{ask: os.Stderr}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove on the terminal that each provisioned setting holds, and sign that it left the bench",
		Long: `Read back from the running system what the provisioning file said: name, configuration,
address, route, name servers, Wi-Fi, central, scanner, printer, language, enrolment, and that the
card holds no secret any more. Then the self-test. The outcome, with versions and serial numbers,
is signed with the terminal's key and told to central, which shows it: central terminal bench.
terminalctl codes B explains the settings.

A terminal with no key (one that stands alone) leaves no signed record, which is said.

Exit status: 0 it may leave the bench, 3 a person should look, 1 it could not be told.`,
		Example: `  sudo terminalctl provision verify --operator ann
  sudo terminalctl provision verify --skip drawer,tamper --yes --json`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := known(v.skip, health.Trials()); err != nil {
				return err
			}
			v.answers, v.ask = bufio.NewReader(cmd.InOrStdin()), cmd.ErrOrStderr()
			a, err := v.run(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.JSON(cmd.OutOrStdout(), a)
			} else {
				err = a.print(cmd.OutOrStdout())
			}
			return errors.Join(err, reportCode(a.Report))
		},
	}
	v.flags(cmd)
	cmd.Flags().StringVar(&v.card, "card", runningCard, "the card with the slot, a `device` or the file of one")
	cmd.Flags().StringVar(&v.drop, "drop", filepath.Join(dataPartition, provision.DropFile), "`file` that provision write --dir has left")
	cmd.Flags().StringVar(&v.supplicant, "supplicant", "/etc/wpa_supplicant", "`folder` of wpa_supplicant's configurations")
	cmd.Flags().StringSliceVar(&v.skip, "skip", nil, "`steps` of the self-test to leave out, by code or name")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "ask nobody: what the devices say themselves is enough")
	cmd.Flags().StringVar(&v.operator, "operator", cmp.Or(os.Getenv("SUDO_USER"), os.Getenv("USER")), "`name` for the record")
	cmd.Flags().StringVar(&v.root, "system-root", "/", "a `folder` with proc, sys and run of the system to look at")
	_ = cmd.Flags().MarkHidden("system-root")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// verification is a terminal on the bench.
type verification struct {
	patient
	card, drop, supplicant string
	root, operator         string
	skip                   []string
	yes                    bool
	answers                *bufio.Reader
	ask                    io.Writer
}

// verified is what was found.
type verified struct {
	Report   health.Report `json:"report"`
	Signed   bool          `json:"signed"` // with the terminal's key
	Why      string        `json:"why"`    // it is not signed
	Bench    wire.Bench    `json:"bench"`
	provided provision.Sheet
}

// run reads everything back, tries the devices and leaves the record.
func (v *verification) run(ctx context.Context) (a verified, err error) {
	record, err := provision.LoadRecord(v.configPath)
	if errors.Is(err, provision.ErrEmpty) {
		return a, fmt.Errorf("%w\nThis card was not provisioned: terminalctl provision write, then restart", err)
	}
	if err != nil {
		return a, err
	}
	sheet := record.Sheet
	v.meet(ctx)
	if v.broken == nil && !v.config.StandAlone {
		v.identity, v.unnamed = uplink.LoadIdentity(v.config.Identity())
	}
	a = verified{provided: sheet, Report: health.Report{Terminal: sheet.Terminal, Program: program(), At: time.Now(), Daemon: v.daemon}}
	for _, f := range v.findings(ctx, sheet) {
		a.Report.Add(asCheck(f))
	}
	v.try(ctx, &a.Report)
	a.Bench = v.bench(record, a.Report)
	return a, v.leave(&a)
}

// asCheck is a finding as reports show it.
func asCheck(f provision.Finding) health.Check {
	return health.Check{Code: f.Code, Name: f.Name, State: health.State(f.State), Detail: f.Detail, Hint: f.Hint}
}

// findings are the settings as they are in force.
func (v *verification) findings(ctx context.Context, sheet provision.Sheet) []provision.Finding {
	s := v.system()
	daemon := ""
	if v.daemon == health.DaemonUp {
		daemon = v.status.Terminal
	}
	list := []provision.Finding{s.Name(sheet.Terminal, daemon), v.configured(sheet)}
	list = append(list, s.Network(ctx, sheet.Network)...)
	list = append(list, s.Reach(ctx, sheet, v.contact()))
	list = append(list, v.asFinding(provision.CheckScanner, v.scanner(ctx), fmt.Sprintf("%s, %s, %d baud", v.config.Scanner.Path, v.config.Scanner.Control, v.config.Scanner.Baud)))
	list = append(list, v.asFinding(provision.CheckPrinter, v.printer(ctx), "profile "+v.config.Printer.Profile))
	return append(list, v.spoken(ctx), v.enrolled(sheet), v.wiped())
}

// contact is when central last answered the daemon, "" for never.
func (v *verification) contact() string {
	if l := v.status.Link; v.daemon == health.DaemonUp && l != nil && !l.Contact.IsZero() {
		return "it last did at " + l.Contact.UTC().Format(time.DateTime+" UTC")
	}
	return ""
}

// configured is B2: the file is the sheet's, and it can be read.
func (v *verification) configured(sheet provision.Sheet) provision.Finding {
	f := provision.About(provision.CheckConfig)
	text, err := cli.ReadBounded(v.configPath, maxConfig)
	switch {
	case err != nil:
		return f.Fail("write the provisioning file again and restart", "%v", err)
	case v.broken != nil:
		return f.Fail("terminald --config "+v.configPath, "it cannot be used: %s", oneLine(v.broken.Error()))
	case !bytes.Equal(text, []byte(sheet.Config)):
		return f.Fail("somebody has edited it: make a new provisioning file with what is wanted", "%s is not what was provisioned", v.configPath)
	}
	return f.OK("%s is what was provisioned", v.configPath)
}

// asFinding is a device's check of the doctor, with how it was configured.
func (v *verification) asFinding(code string, c health.Check, as string) provision.Finding {
	f := provision.About(code)
	f.State, f.Detail, f.Hint = provision.State(c.State), c.Detail+" ("+as+")", c.Hint
	if c.State == health.Warn || v.daemon != health.DaemonUp && c.State != health.Fail {
		return f.Fail(cmp.Or(c.Hint, "systemctl status terminald"), "%s; terminald has not said that it works (%s)", c.Detail, as)
	}
	return f
}

// maxPage bounds what is read of the clerk's page.
const maxPage = 1 << 20

// spoken is B10, by the clerk's page itself.
func (v *verification) spoken(ctx context.Context) provision.Finding {
	f := provision.About(provision.CheckLanguage)
	hint := "restart terminald; else: terminalctl doctor"
	if v.daemon != health.DaemonUp {
		return f.Fail(hint, "terminald does not answer")
	}
	ctx, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.status.Page, nil)
	if err != nil {
		return f.Fail(hint, "%v", err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return f.Fail(hint, "the clerk's page cannot be read: %v", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxPage))
	if _, rest, ok := strings.Cut(string(text), `<html lang="`); err == nil && ok && strings.HasPrefix(rest, v.config.Language+`"`) {
		return f.OK("the clerk's page speaks %q", v.config.Language)
	}
	return f.Fail(hint, "the clerk's page at %s does not speak %q (%v)", v.status.Page, v.config.Language, err)
}

// enrolled is B11.
func (v *verification) enrolled(sheet provision.Sheet) provision.Finding {
	f := provision.About(provision.CheckEnrolled)
	switch {
	case sheet.Central == nil:
		return f.Skip("not needed: the terminal stands alone")
	case v.unnamed != nil:
		return f.Fail("write the provisioning file again and restart", "%v", v.unnamed)
	case v.identity.Terminal != sheet.Terminal || strings.TrimSuffix(v.identity.Central, "/") != strings.TrimSuffix(sheet.Central.URL, "/"):
		return f.Fail("flash the card anew", "the identity is %s's at %s", v.identity.Terminal, v.identity.Central)
	case v.identity.Waiting() && sheet.Network.Kind == provision.None:
		return f.OK("waits for its first contact with %s", sheet.Central.URL)
	case v.identity.Waiting():
		return f.Fail("let it reach central and verify again; if central refuses, the code was used by another device or has ended", "central has not certified it yet")
	}
	return f.OK("certified until %s", v.identity.Expires().UTC().Format(time.DateOnly))
}

// wiped is B12: no note lies on the card, and no key is open to others.
func (v *verification) wiped() provision.Finding {
	f := provision.About(provision.CheckWiped)
	card, err := provision.OpenRunning(v.card)
	if err == nil {
		_, err = provision.ReadSlot(card)
		_ = card.Close() // it was only read
	}
	if _, dropped := os.Stat(v.drop); dropped == nil {
		err = fmt.Errorf("%s is still there", v.drop)
	} else if errors.Is(err, provision.ErrEmpty) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	} else if err == nil {
		err = errors.New("the card's slot still holds a provisioning file")
	}
	if err != nil {
		return f.Fail("terminalctl provision apply says why it was not taken", "%v", err)
	}
	keys := health.Keys(v.keys())
	if keys.State == health.Fail {
		return f.Fail(keys.Hint, "%s", keys.Detail)
	}
	path := filepath.Join(v.supplicant, provision.SupplicantFile)
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return f.Fail("chmod 600 "+path, "%s can be read by others", path)
	}
	return f.OK("the card's slot is empty, keys are their owner's alone")
}

// try makes the self-test's steps.
func (v *verification) try(ctx context.Context, r *health.Report) {
	t := trial{patient: &v.patient, skip: v.skip, yes: v.yes, answers: v.answers, ask: v.ask}
	tried, err := t.run(ctx)
	r.Add(tried.Checks...)
	f := provision.About(provision.CheckTrial)
	switch {
	case err != nil:
		r.Add(asCheck(f.Fail("terminalctl selftest", "it ended before it was whole: %s", oneLine(err.Error()))))
	case len(tried.Checks) == 0:
		r.Add(asCheck(f.Fail("verify again without --skip", "every step was left out")))
	default:
		r.Add(asCheck(f.OK("%d steps were tried", len(tried.Checks))))
	}
}

// bench is the record of what was found.
func (v *verification) bench(record provision.Record, r health.Report) wire.Bench {
	s := record.Sheet
	b := wire.Bench{Terminal: s.Terminal, At: wire.FormatTime(r.At), OK: r.Findings() == 0 && r.Unseen == 0, Operator: v.operator, Program: program(), Serial: s.Serial, Mark: record.Mark,
		Shop: s.Shop.ID, Parts: v.parts()}
	for _, c := range r.Checks {
		detail := c.Detail
		if len(detail) > 200 {
			detail = strings.ToValidUTF8(detail[:200], "") + "..."
		}
		b.Checks = append(b.Checks, wire.BenchCheck{Code: c.Code, Name: c.Name, State: string(c.State), Detail: detail})
	}
	return b
}

// leave signs the record and stores it where terminald tells central of it.
func (v *verification) leave(a *verified) error {
	if a.provided.Central == nil || v.unnamed != nil || v.broken != nil {
		a.Why = "the terminal has no key of its own to sign with"
		return nil
	}
	note, err := wire.NewBench(a.Bench, v.identity.Sign)
	if err != nil {
		return fmt.Errorf("the record: %w", err)
	}
	dir := v.config.Identity()
	if err := uplink.KeepBench(dir, note); err != nil {
		return fmt.Errorf("the record: %w", err)
	}
	a.Signed = true
	return give(v.config.Data, dir)
}

func (a verified) print(w io.Writer) error {
	if err := printReport(w, a.Report); err != nil {
		return err
	}
	word := "It may leave the bench"
	if !a.Bench.OK {
		word = "It must NOT leave the bench yet"
	}
	end := "; signed with the terminal's key, and told to central at its next contact."
	if !a.Signed {
		end = "; not signed: " + a.Why + "."
	}
	_, err := fmt.Fprintln(w, word+end)
	return err
}

// system is the running one.
func (v *verification) system() provision.System {
	return provision.System{Root: os.DirFS(v.root), Host: os.Hostname, SSID: ssid, Interfaces: interfaces,
		Connect: func(ctx context.Context, to string) error {
			ctx, cancel := context.WithTimeout(ctx, answerIn)
			defer cancel()
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
			if err == nil {
				_ = conn.Close() // nothing was sent
			}
			return err
		}}
}

func interfaces() (list []provision.Interface, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		one := provision.Interface{Name: i.Name}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				one.Addresses = append(one.Addresses, p)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

// ssid asks the kernel in which wireless network an interface is (wireless extensions).
func ssid(name string) (string, error) {
	const essidMax, getESSID = 32, 0x8b1b // IW_ESSID_MAX_SIZE, SIOCGIWESSID
	var request struct {
		name   [unix.IFNAMSIZ]byte
		text   unsafe.Pointer
		length uint16
		flags  uint16
		_      [12]byte
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var text [essidMax + 1]byte
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.text, request.length = unsafe.Pointer(&text[0]), essidMax
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getESSID, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return "", errno
	}
	return string(text[:min(int(request.length), essidMax)]), nil
}

// parts are versions and serial numbers of what is on the bench.
func (v *verification) parts() map[string]string {
	root := os.DirFS(v.root)
	parts := map[string]string{"terminald": v.status.Program}
	read := func(name string, of ...string) {
		for _, path := range of {
			text, err := fs.ReadFile(root, path)
			if value := strings.Trim(strings.TrimSpace(string(text)), "\x00"); err == nil && value != "" && len(value) <= 200 {
				parts[name] = strings.ToValidUTF8(value, "?")
				return
			}
		}
	}
	read("board", "sys/firmware/devicetree/base/model")
	read("board serial", "sys/firmware/devicetree/base/serial-number")
	read("card", "sys/block/mmcblk0/device/cid")
	read("card model", "sys/block/mmcblk0/device/name")
	read("kernel", "proc/sys/kernel/osrelease")
	read("image", "usr/lib/grattoir/release", "etc/grattoir-release")
	for _, i := range []string{"eth0", "end0", provision.Wireless} {
		read("address of "+i, "sys/class/net/"+i+"/address")
	}
	for name, port := range map[string]string{"scanner serial": v.config.Scanner.Path, "printer serial": v.config.Printer.Path} {
		if tty, err := filepath.EvalSymlinks(port); err == nil {
			for _, up := range []string{"..", "../..", "../../.."} { // the USB device above the port
				if dir, err := filepath.EvalSymlinks(filepath.Join(v.root, "sys/class/tty", filepath.Base(tty), "device")); err == nil {
					if text, err := os.ReadFile(filepath.Join(dir, up, "serial")); err == nil {
						parts[name] = strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
						break
					}
				}
			}
		}
	}
	return parts
}
