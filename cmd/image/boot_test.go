package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/device/sim"
	"grattoir/firmware/flash"
	"grattoir/firmware/image"
	"grattoir/validate/manifest"
)

// bench is what a test needs besides the machine: images, bundles, a block and its winners.
type bench struct {
	card                                     string // v1, flashed
	stick                                    string // a file system with the bundles
	lottery                                  []byte // public key
	block                                    []byte
	winners                                  []string
	good, bad, foreign, wrongBoard, tampered string // names on the stick
}

// TestImageSellsUpdatesAndRollsBack is a terminal's life on the emulated board: it starts
// from a flashed card, a technician sets it up, tickets are paid on its serial ports and its
// ledger outlives an update; no bundle that is not ours gets in, and one that does not work
// is left by itself. `make test-image` runs it; nothing else does, for it takes minutes.
func TestImageSellsUpdatesAndRollsBack(t *testing.T) {
	if os.Getenv("GRATTOIR_IMAGE") == "" {
		t.Skip("builds an image and starts it under emulation: make test-image")
	}
	b := prepareBench(t)
	m := &machine{t: t, dir: t.TempDir(), card: b.card, port: freePort(t)}
	var err error
	if m.scanner, err = sim.NewScanner(filepath.Join(m.dir, "scanner")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.scanner.Close() })
	if m.printer, err = sim.NewPrinter(filepath.Join(m.dir, "printer"), sim.PrinterOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.printer.Close() })
	m.technicianKey()
	m.start(b.stick)
	boot := m.running(8*time.Minute, "1.0.0", "")

	m.unprovisioned()
	m.provision(b)
	m.sells(b.winners[0])
	m.replugged()
	m.sells(b.winners[1])
	m.hardened()

	m.refuses(b)
	boot = m.updates(b, boot)
	if paid := m.do("terminalctl history --json"); strings.Count(paid, `"claim"`) < 2 {
		t.Errorf("the ledger after the update has not both payments: %s", paid)
	}
	m.refused(b.winners[0])
	m.sells(b.winners[2])
	m.rollsBack(b, boot)
	m.sells(b.winners[3])
}

// technicianKey makes this terminal's login and puts it onto the card, as provisioning does.
func (m *machine) technicianKey() {
	m.t.Helper()
	key := filepath.Join(m.dir, "technician")
	tool(m.t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	board, err := image.FindBoard("virt")
	if err != nil {
		m.t.Fatal(err)
	}
	data := fmt.Sprintf("%s?offset=%d", m.card, board.Partitions()[3].Offset)
	tool(m.t, "debugfs", "-w", "-R", "write "+key+".pub etc/grattoir/technician.keys", data)
}

// unprovisioned: a card that nobody has set up runs, pays nothing, and lets nobody else in.
func (m *machine) unprovisioned() {
	m.t.Helper()
	if out, err := m.ssh(time.Minute, nil, "systemctl is-active terminald.service"); err == nil {
		m.t.Errorf("terminald runs without a configuration: %s", out)
	}
	for what, command := range map[string]string{
		"the root can be written":           "touch /usr/x",
		"a console asks for a login":        "systemctl is-active 'getty@tty1.service' 'serial-getty@ttyAMA0.service'",
		"a unit has failed":                 "systemctl --failed --no-legend | grep .",
		"a secret of the build is in it":    "ls /etc/ssh/ssh_host_*",
		"ModemManager or brltty came along": "ls /usr/sbin/ModemManager /usr/bin/brltty 2>/dev/null | grep .",
		"the journal is on the card":        "ls /var/log/journal",
		"an account has a password":         "cut -d: -f2 /etc/shadow | grep -v '^[!*]*$'",
	} {
		if out, err := m.ssh(time.Minute, nil, command); err == nil {
			m.t.Errorf("%s: %s: %s", what, command, out)
		}
	}
	if size := strings.TrimSpace(m.do("df --output=size -BM /data | tail -1 | tr -dc 0-9")); len(size) < 3 {
		m.t.Errorf("the data partition has %s MB: it did not grow with the card", size)
	}
}

// provision sets the terminal up by hand.
func (m *machine) provision(b bench) {
	m.t.Helper()
	config := string(configs.TerminalExample)
	for old, now := range map[string]string{
		"accept_scaled = false":                "accept_scaled = true",
		`"/dev/serial/by-id/scanner"`:          `"/dev/grattoir/scanner"`,
		`"/dev/serial/by-id/printer"`:          `"/dev/grattoir/printer"`,
		`keys = ["/etc/grattoir/lottery.pub"]`: `keys = ["/etc/grattoir/lottery.pub"]`,
	} {
		if !strings.Contains(config, old) {
			m.t.Fatalf("the example has no %s any more", old)
		}
		config = strings.ReplaceAll(config, old, now)
	}
	m.put("/etc/grattoir/lottery.pub", b.lottery)
	m.put("/tmp/b1.manifest", b.block)
	m.do("mkdir -p /var/lib/grattoir/manifests && terminalctl manifest import /tmp/b1.manifest --key /etc/grattoir/lottery.pub --into /var/lib/grattoir/manifests && chown -R grattoir: /var/lib/grattoir")
	m.put("/etc/grattoir/terminald.toml", []byte(config))
	m.do("systemctl start terminald.service") // Type=notify: it returns when the counter is open
}

// sells scans a winner under the glass and pays it; the slip comes out at the printer.
func (m *machine) sells(code string) {
	m.t.Helper()
	before := len(m.printer.Slips())
	m.scan(code)
	m.await(90*time.Second, "a payment", func() bool {
		_, err := m.ssh(time.Minute, nil, "terminalctl pay --confirm-cash --json")
		return err == nil
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Minute)
	defer cancel()
	if err := m.printer.AwaitSlips(ctx, before+1); err != nil {
		m.t.Fatalf("no slip came out: %v", err)
	}
	slips := m.printer.Slips()
	if text := slips[len(slips)-1].Text(); !strings.Contains(text, "DEMONSTRATION") && !strings.Contains(text, "DÉMONSTRATION") && !strings.Contains(text, "Ticket") {
		m.t.Errorf("that is no slip of a payment:\n%s", text)
	}
}

// scan puts a code under the glass once terminald listens there.
func (m *machine) scan(code string) {
	m.t.Helper()
	m.await(2*time.Minute, "scanner and printer ready", func() bool {
		out, err := m.ssh(time.Minute, nil, "terminalctl status --json || test $? = 3")
		return err == nil && !strings.Contains(out, `"S1"`) && !strings.Contains(out, `"P1"`)
	})
	if err := m.scanner.Scan(code); err != nil {
		m.t.Fatal(err)
	}
}

// refused: what was paid before the update is not paid after it.
func (m *machine) refused(code string) {
	m.t.Helper()
	out, err := m.ssh(time.Minute, nil, "terminalctl scan "+code+" --json")
	if err == nil || !strings.Contains(err.Error(), "already-paid-here") {
		m.t.Errorf("a paid ticket after the update: %v\n%s", err, out)
	}
}

// replugged pulls both cables and plugs them in the other way round, so that the kernel's
// names change places, and the terminal's stay.
func (m *machine) replugged() {
	m.t.Helper()
	before := m.do("readlink -f /dev/grattoir/scanner /dev/grattoir/printer")
	for _, device := range []string{"scanner", "printer"} {
		m.control("device_del", map[string]any{"id": "usb-" + device})
		m.await(time.Minute, device+" unplugged", func() bool {
			_, err := m.ssh(time.Minute, nil, "test ! -e /dev/grattoir/"+device)
			return err == nil
		})
	}
	for _, device := range []string{"printer", "scanner"} {
		m.control("device_add", map[string]any{"driver": "usb-serial", "chardev": device, "serial": "grattoir-" + device, "id": "usb-" + device})
		m.await(time.Minute, device+" plugged in", func() bool {
			_, err := m.ssh(time.Minute, nil, "test -c /dev/grattoir/"+device)
			return err == nil
		})
	}
	if after := m.do("readlink -f /dev/grattoir/scanner /dev/grattoir/printer"); after == before {
		m.t.Errorf("the kernel's names did not change places, so this shows nothing: %s", after)
	}
}

// hardened: terminald runs as nobody who matters, and the watchdog waits for it.
func (m *machine) hardened() {
	m.t.Helper()
	got := m.do("systemctl show -P User -P Type -P WatchdogUSec -P Result terminald.service; wdctl -n -o TIMEOUT 2>/dev/null || cat /sys/class/watchdog/watchdog0/state; systemd-analyze security terminald.service --no-pager | tail -1")
	m.t.Logf("terminald: %s", strings.Join(strings.Fields(got), " "))
	for _, want := range []string{"grattoir", "notify", "1min", "OK"} {
		if !strings.Contains(got, want) {
			m.t.Errorf("terminald's unit lacks %q: %s", want, got)
		}
	}
}

// mounted mounts the stick with the bundles.
const mounted = "mkdir -p /run/stick && { mountpoint -q /run/stick || mount -o ro /dev/disk/by-label/BUNDLES /run/stick; } && "

// refuses: a bundle by others, for another board, or changed on the way stays outside, and
// the terminal stays with the slot that it has.
func (m *machine) refuses(b bench) {
	m.t.Helper()
	m.do(mounted + "true")
	for _, c := range []struct{ what, bundle, why string }{
		{"signed by others", b.foreign, "signature verification failed"},
		{"for another board", b.wrongBoard, "Compatible mismatch"},
		{"changed on the way", b.tampered, ""}, // the kernel's verity names only the block
	} {
		said := m.fails("test -s /run/stick/" + c.bundle + " && rauc install /run/stick/" + c.bundle)
		m.t.Logf("%s: %s", c.what, said)
		if !strings.Contains(strings.ToLower(said), strings.ToLower(c.why)) || !strings.Contains(said, "nstalling") {
			m.t.Errorf("%s: refused for another reason than %q", c.what, c.why)
		}
		what := c.what
		s := m.state()
		if len(s.Order) == 0 || s.Order[0] != "A" || s.Left["A"] != image.Attempts || s.Left["B"] != 0 {
			m.t.Errorf("%s: the boot state is %+v", what, s)
		}
	}
}

// updates installs the good bundle and starts into it.
func (m *machine) updates(b bench, boot string) string {
	m.t.Helper()
	if out, err := m.ssh(10*time.Minute, nil, mounted+"rauc install /run/stick/"+b.good); err != nil {
		m.t.Fatalf("the good bundle: %v\n%s", err, out)
	}
	if s := m.state(); s.Order[0] != "B" || s.Left["B"] != 1 {
		m.t.Errorf("after the install the boot state is %+v: want one try of B first", s)
	}
	m.restart()
	boot = m.running(8*time.Minute, "2.0.0", boot)
	if s := m.state(); s.Order[0] != "B" || s.Left["B"] != image.Attempts {
		m.t.Errorf("marked good, the boot state is %+v", s)
	}
	return boot
}

// rollsBack installs a release whose terminald does not start, and finds the one before it
// again, with nobody's help.
func (m *machine) rollsBack(b bench, boot string) {
	m.t.Helper()
	if out, err := m.ssh(10*time.Minute, nil, mounted+"rauc install /run/stick/"+b.bad); err != nil {
		m.t.Fatalf("the bad bundle: %v\n%s", err, out)
	}
	m.restart()
	m.running(12*time.Minute, "2.0.0", boot)
	if s := m.state(); s.Left["A"] != 0 || s.Left["B"] != image.Attempts {
		m.t.Errorf("after the fall-back the boot state is %+v: want no try left of A", s)
	}
	console, err := os.ReadFile(filepath.Join(m.dir, "console.log"))
	if err != nil {
		m.t.Fatal(err)
	}
	if n := bytes.Count(console, []byte("grattoir: slot A, left A 0")); n != 1 {
		m.t.Errorf("U-Boot started the bad slot %d times: want 1", n)
	}
}

func (m *machine) restart() {
	m.t.Helper()
	m.ssh(30*time.Second, nil, "systemctl reboot") // the line may be cut before the answer
	m.event("RESET")
}

// prepareBench builds what the test needs; the cache keeps what came from the network. With
// GRATTOIR_IMAGE_KEEP=DIR what was built stays there, and the next run takes it as it is:
// for whoever works on the test and not on the image.
func prepareBench(t *testing.T) bench {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	work := os.Getenv("GRATTOIR_IMAGE_KEEP")
	if work == "" {
		work = t.TempDir()
	}
	b := bench{stick: filepath.Join(work, "stick.ext4"), good: "good.raucb", bad: "bad.raucb", foreign: "foreign.raucb", wrongBoard: "board.raucb", tampered: "tampered.raucb"}
	packed := filepath.Join(work, "out", "grattoir-virt-1.0.0.img.zst")
	if _, err := os.Stat(b.stick); err != nil {
		b.build(t, work)
	}
	b.read(t, work)
	b.flash(t, packed, filepath.Join(t.TempDir(), "card"))
	return b
}

// build makes the image, the updates and the block.
func (b *bench) build(t *testing.T, work string) {
	t.Helper()
	begun := time.Now()
	o := options{boards: []string{"virt"}, version: "1.0.0", out: filepath.Join(work, "out"), cache: os.Getenv("GRATTOIR_IMAGE_CACHE"), mirror: "http://deb.debian.org", clock: "2026-11-01T00:00:00Z"}
	builder, release, err := o.prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(work, "build.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	builder.Log, builder.Tell = log, func(line string) { t.Logf("%4.0f s  %s", time.Since(begun).Seconds(), line) }
	signer, err := note.NewSigner(sample(t, work))
	if err != nil {
		t.Fatal(err)
	}
	builder.By = []note.Signer{signer}
	board, err := image.FindBoard("virt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := builder.Build(t.Context(), board, release, image.Change{}); err != nil {
		t.Fatal(err)
	}
	b.bundles(t, builder, board, release, filepath.Join(work, "stick"))
}

// sample makes a block with its winners, by central as anybody would, and returns the
// secret key that signed it.
func sample(t *testing.T, work string) string {
	t.Helper()
	tool(t, "bin/central", "key", "new", "--name", "lottery", "--out", work)
	tool(t, "bin/central", "block", "sample", "--game", "bingo", "--tickets", "3000", "--out", work+"/sample")
	tool(t, "bin/central", "block", "seal", "--game", "bingo", "--tickets", work+"/sample/tickets.csv", "--key", work+"/lottery.key", "--out", work+"/b1.manifest")
	secret, err := os.ReadFile(work + "/lottery.key")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(secret))
}

// read takes the block, its key and some winners.
func (b *bench) read(t *testing.T, work string) {
	t.Helper()
	var err error
	if b.lottery, err = os.ReadFile(work + "/lottery.pub"); err != nil {
		t.Fatal(err)
	}
	if b.block, err = os.ReadFile(work + "/b1.manifest"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(work + "/sample/tickets.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if line[1] == "2000" {
			b.winners = append(b.winners, line[0])
		}
	}
	if len(b.winners) < 4 {
		t.Fatalf("%d tickets win 20 €: want 4", len(b.winners))
	}
}

// flash writes the signed image to a card that is a file, as a technician does.
func (b *bench) flash(t *testing.T, path, card string) {
	t.Helper()
	ring, err := manifest.NewKeys(1, strings.TrimSpace(string(b.lottery)))
	if err != nil {
		t.Fatal(err)
	}
	im, err := flash.Open(t.Context(), path, ring, func(int64, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	medium, err := flash.OpenFile(card, 2<<30)
	if err != nil {
		t.Fatal(err)
	}
	defer medium.Close()
	if _, err := flash.Write(t.Context(), flash.Job{Image: im, Medium: medium, Card: flash.Card{Serial: "card", Size: 2 << 30}, Tell: func(flash.Progress) {}}); err != nil {
		t.Fatal(err)
	}
	b.card = card
}

// bundles makes the updates, good and bad, and a stick that holds them.
func (b *bench) bundles(t *testing.T, builder image.Builder, board image.Board, release image.Release, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	make := func(version string, change image.Change) image.Built {
		t.Helper()
		release.Version = version
		built, err := builder.Update(t.Context(), board, release, change)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	v2 := make("2.0.0", image.Change{})
	v3 := make("3.0.0", image.Change{Files: map[string][]byte{"usr/bin/terminald": []byte("#!/bin/sh\nexit 1\n")}})
	others, err := image.DevelopmentKeys(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stranger := builder
	stranger.Signing = others
	if err := stranger.Bundle(t.Context(), board.Compatible(), release, v2.Root, filepath.Join(folder, b.foreign)); err != nil {
		t.Fatal(err)
	}
	if err := builder.Bundle(t.Context(), "grattoir-pi", release, v2.Root, filepath.Join(folder, b.wrongBoard)); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(v2.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(good)
	changed[len(changed)/2] ^= 1
	for name, data := range map[string][]byte{b.good: good, b.tampered: changed} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "cp", v3.Bundle, filepath.Join(folder, b.bad))
	tool(t, "mke2fs", "-q", "-t", "ext4", "-L", "BUNDLES", "-d", folder, b.stick+".new", "1G")
	if err := os.Rename(b.stick+".new", b.stick); err != nil {
		t.Fatal(err)
	}
}

func tool(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
