package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/health"
	"grattoir/sync/ledger"
	"grattoir/sync/uplink"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

func bundleCommand() *cobra.Command {
	var p patient
	var out, log string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Put what support needs to know into one file, with no secret in it",
		Long: `Write a file for support: what the doctor found, the daemon's status, the configuration
without names, the ends and counts of the ledger, the blocks by their headers, versions, and
the end of a log where one is given. Each part has a list of what may be in it; keys, PINs,
ticket codes, identities and whatever else lies in the terminal's folders are not read into
it. Nothing is sent anywhere.`,
		Example: `  terminalctl bundle --out /media/usb/T-0001.tar.gz
  journalctl -u terminald | terminalctl bundle --log -`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := openLog(cmd, log)
			if err != nil {
				return err
			}
			defer text.Close()
			b, err := p.bundle(cmd.Context(), text)
			if err != nil {
				return err
			}
			if p.broken != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "terminalctl: the bundle lacks what the configuration names (is it another --config?): %v\n", p.broken)
			}
			a, err := saveBundle(b, out, p.config.Name, time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			return a.print(cmd.OutOrStdout())
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&out, "out", "", "the `file` to write, which must not exist; by default one in this folder, named by terminal and time")
	cmd.Flags().StringVar(&log, "log", "", "a `file` of terminald's log, or - for standard input; its end is taken, made safe")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// openLog opens the log that was named; no log is an empty one.
func openLog(cmd *cobra.Command, name string) (io.ReadCloser, error) {
	switch name {
	case "":
		return io.NopCloser(strings.NewReader("")), nil
	case "-":
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--log: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Size() > 2*health.MaxPart {
		_, err = f.Seek(-2*health.MaxPart, io.SeekEnd)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--log: %w", err), f.Close())
	}
	return f, nil
}

// bundleAnswer is a bundle that was written.
type bundleAnswer struct {
	File  string        `json:"file"`
	Bytes int64         `json:"bytes"`
	Parts []health.Part `json:"parts"`
}

func (a bundleAnswer) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d bytes, for its owner alone\n", a.File, a.Bytes)
	for _, p := range a.Parts {
		fmt.Fprintf(&b, "  %-16s %d bytes\n", p.Name, p.Bytes)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// bundle collects the parts. One that cannot be made says why in its place: a bundle of a
// terminal that is in trouble is the one that is needed.
func (p *patient) bundle(ctx context.Context, log io.Reader) (*health.Bundle, error) {
	r := p.examine(ctx, nil)
	for i, c := range r.Checks {
		r.Checks[i].Detail, r.Checks[i].Hint = health.Scrub(c.Detail), health.Scrub(c.Hint)
	}
	b := new(health.Bundle)
	add := func(name string, v any, err error) error {
		if err == nil {
			err = b.AddJSON(name, v)
		}
		if err == nil {
			return nil
		}
		return b.AddJSON(name, map[string]string{"error": health.Scrub(err.Error())})
	}
	book, bookErr := p.ledgerSummary(ctx)
	blocks, blocksErr := p.manifestList(ctx)
	err := errors.Join(
		add(health.PartDoctor, r, nil),
		add(health.PartVersions, p.versions(), nil),
		add(health.PartConfig, configFacts(p.config), p.broken),
		add(health.PartLedger, book, bookErr),
		add(health.PartManifests, blocks, blocksErr),
		b.AddLog(log))
	if p.daemon == health.DaemonUp {
		err = errors.Join(err, add(health.PartStatus, p.statusFacts(), nil))
	}
	return b, err
}

// saveBundle writes the file for its owner alone, whole and on the disk or not at all.
func saveBundle(b *health.Bundle, out, terminal string, at time.Time) (a bundleAnswer, err error) {
	if terminal == "" {
		terminal = "terminal"
	}
	name := "grattoir-" + fileWord(terminal) + "-" + at.UTC().Format("20060102-150405")
	if out == "" {
		out = name + ".tar.gz"
	}
	var packed bytes.Buffer
	if a.Parts, err = b.Write(&packed, name, at); err != nil {
		return a, err
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return a, fmt.Errorf("--out: %w (a bundle overwrites nothing)", err)
	}
	_, err = f.Write(packed.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return a, errors.Join(fmt.Errorf("--out %s: %w", out, err), os.Remove(out))
	}
	a.File, a.Bytes = out, int64(packed.Len())
	return a, nil
}

// fileWord is a terminal's name as a part of a file's.
func fileWord(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
}

// configKeys are the keys of the configuration that a bundle tells. Those of people and
// places stay at the terminal, and so does every key that is not on the list.
func configKeys() []string {
	return []string{"name", "language", "time_zone", "data", "socket", "keys", "signatures", "claim_key", "stand_alone", "central.url", "central.proxy", "update.agent", "update.quiet", "accept_scaled", "release_at_close",
		"sign_on", "auto_lock_minutes", "register.key", "register.span_hours", "register.keep_days", "reserve_mb", "quota_mb", "screen.listen",
		"scanner.path", "scanner.baud", "scanner.parity", "scanner.data_bits", "scanner.suffix", "scanner.prefix", "scanner.idle_ms", "scanner.control", "printer.path", "printer.baud", "printer.flow", "printer.profile", "printer.profiles", "printer.result_slip", "printer.drawer_pin", "printer.drawer_pulse_ms", "shop.logo",
		"gpio.busy.pin", "gpio.busy.active_low", "gpio.busy.pull", "gpio.power.pin", "gpio.power.active_low", "gpio.drawer.pin", "gpio.drawer.active_low", "gpio.win.pin", "gpio.win.active_low",
		"gpio.refuse.pin", "gpio.refuse.active_low", "gpio.fault.pin", "gpio.fault.active_low", "gpio.buzzer.pin", "gpio.buzzer.active_low", "gpio.tamper.pin", "gpio.tamper.active_low",
		"gpio.tamper.pull", "gpio.pay.pin", "gpio.pay.active_low", "gpio.pay.pull", "sound.program", "sound.volume", "gpio.drawer_pulse_ms", "gpio.power_off_ms", "gpio.power_settle_ms",
		"policy.version", "policy.currency", "policy.shop_limit_minor", "policy.confirm_cash_prize_minor", "policy.confirm_cash_total_minor",
		"policy.identity_prize_minor", "policy.identity_total_over_minor", "policy.claim_days", "policy.weak_limit_minor", "allowance.claims", "allowance.money_minor"}
}

// configFacts is the configuration by the keys that may be told, its texts scrubbed: a
// secret may have been written into the wrong place.
func configFacts(c configs.Terminal) map[string]any {
	if u, err := url.Parse(c.Central.URL); err == nil && u.Host != "" {
		c.Central.URL = u.Scheme + "://" + u.Host
	}
	out := map[string]any{}
	walkConfig("", reflect.ValueOf(c), func(key string, v reflect.Value) {
		if !slices.Contains(configKeys(), key) {
			return
		}
		switch v.Kind() {
		case reflect.String:
			out[key] = health.Scrub(v.String())
		case reflect.Slice:
			list := []string{}
			for i := range v.Len() {
				list = append(list, health.Scrub(fmt.Sprint(v.Index(i).Interface())))
			}
			out[key] = list
		default:
			out[key] = v.Interface()
		}
	})
	return out
}

// walkConfig visits every key of the configuration that is no table.
func walkConfig(prefix string, v reflect.Value, visit func(key string, v reflect.Value)) {
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("toml"), ",")
		if v.Field(i).Kind() == reflect.Struct {
			walkConfig(prefix+key+".", v.Field(i), visit)
			continue
		}
		visit(prefix+key, v.Field(i))
	}
}

// ledgerFacts are where the journal ends and how much is in it: no entry, and nothing of
// one but its kind.
type ledgerFacts struct {
	Terminal string           `json:"terminal"`
	Access   string           `json:"access"`
	Head     string           `json:"head"`
	HeadHash string           `json:"head_hash"`
	Kinds    map[string]int64 `json:"entries_by_kind"` // of the current epoch
	Bytes    map[string]int64 `json:"bytes"`           // of the ledger's files
}

func (p *patient) ledgerSummary(ctx context.Context) (f ledgerFacts, err error) {
	if p.broken != nil {
		return f, errors.New("the configuration says where it lies, and it cannot be used")
	}
	path := p.config.Ledger()
	book, err := ledger.Inspect(ctx, path)
	if err != nil {
		return f, err
	}
	defer book.Close()
	head := book.Head()
	f = ledgerFacts{Terminal: book.Terminal(), Access: string(book.Access), Head: validate.EntryNumber{Epoch: head.Epoch, Seq: head.Seq}.String(), HeadHash: head.Hash.String(),
		Kinds: map[string]int64{}, Bytes: map[string]int64{}}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(path + suffix); err == nil {
			f.Bytes["ledger.db"+suffix] = info.Size()
		}
	}
	return f, book.Lines(ctx, head.Epoch, 0, func(_ int64, line []byte) error {
		e, err := ledger.ParseEntry(line)
		if err != nil {
			return err
		}
		f.Kinds[string(e.Kind)]++
		return nil
	})
}

// manifestFacts is a file of the folder of manifests, by its header.
type manifestFacts struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Block   string `json:"block_id,omitempty"`
	Serial  int64  `json:"serial,omitempty"`
	Game    string `json:"game,omitempty"`
	Code    string `json:"game_code,omitempty"`
	Tickets int64  `json:"tickets,omitempty"`
	Scaled  bool   `json:"scaled,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (p *patient) manifestList(ctx context.Context) ([]manifestFacts, error) {
	if p.broken != nil {
		return nil, errors.New("the configuration says where they lie, and it cannot be used")
	}
	dir := p.config.Manifests()
	ring, err := p.ring()
	if err != nil {
		return nil, err
	}
	names, err := p.files(dir, ".manifest")
	list := []manifestFacts{}
	for _, name := range names {
		f := manifestFacts{File: health.Scrub(name)}
		if uplink.IsBlockName(strings.TrimSuffix(name, ".manifest")) {
			f.File = name
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			f.Bytes = info.Size()
		}
		b, err := manifest.Open(ctx, filepath.Join(dir, name), ring)
		if err != nil {
			f.Error = health.Scrub(err.Error())
		}
		if b != nil {
			h := b.Header
			f.Block, f.Serial, f.Game, f.Code, f.Tickets, f.Scaled = h.Block.String(), int64(h.Serial), h.Game, h.GameCode, h.Tickets, h.Scaled
			_ = b.Close() // it was only read
		}
		list = append(list, f)
	}
	return list, err
}

// statusFacts are what a bundle tells of the daemon's word: neither who is signed on nor
// the shop, and every free text scrubbed.
func (p *patient) statusFacts() map[string]any {
	st := p.status
	faults := map[string]string{}
	for name, f := range map[string]*control.Fault{"scanner": st.Scanner, "printer": st.Printer, "paper": st.Paper, "ledger": st.Ledger, "clock": st.Clock, "limits": st.Limits.Fault} {
		if f != nil {
			faults[name] = f.Code + ": " + health.Scrub(f.Technician)
		}
	}
	out := map[string]any{"terminal": st.Terminal, "program": st.Program, "policy": st.Policy, "policy_source": st.Limits.Source, "stand_alone": st.StandAlone,
		"head": st.Head, "head_hash": st.HeadHash, "unsent": st.Unsent, "faults": faults, "signed_on": st.Session != nil, "training": st.Training,
		"reprint": st.Reprint, "now": st.Now, "trusted": st.Trusted, "blocks": len(st.Blocks), "damaged": len(st.Damaged)}
	if l := st.Link; l != nil {
		var lanes []string
		for _, f := range l.Faults {
			lanes = append(lanes, f.Code+" "+f.Clerk+": "+health.Scrub(f.Technician))
		}
		out["link"] = map[string]any{"contact": l.Contact, "acked": l.Acked, "entries": l.Entries, "snapshot": l.Snapshot, "feed": l.Feed, "exceptions": l.Exceptions,
			"certificate": l.Certificate, "faults": lanes, "region": l.Region, "quota_bytes": l.QuotaBytes, "taken_bytes": l.TakenBytes, "missing": len(l.Missing)}
	}
	return out
}

// versions are the programs and the machine.
func (p *patient) versions() map[string]string {
	out := map[string]string{"terminalctl": program(), "go": goVersion(), "processor": runtime.GOARCH}
	if p.daemon == health.DaemonUp {
		out["terminald"] = p.status.Program
	}
	for name, path := range map[string]string{"kernel": "/proc/sys/kernel/osrelease", "board": "/proc/device-tree/model"} {
		if text, err := cli.ReadBounded(path, maxKeyFile); err == nil {
			out[name] = health.Scrub(strings.Trim(string(text), "\x00\n"))
		}
	}
	text, _ := cli.ReadBounded("/etc/os-release", maxKeyFile)
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			out["system"] = health.Scrub(strings.Trim(name, `"`))
		}
	}
	return out
}
