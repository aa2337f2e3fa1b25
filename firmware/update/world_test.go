package update_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/firmware/update"
	"grattoir/firmware/update/raucfake"
	"grattoir/validate/manifest"
)

const board = "grattoir-virt"

// signer is one release key for all tests, and ring trusts it.
var keys = sync.OnceValues(func() (note.Signer, manifest.Keys) {
	secret, public, err := note.GenerateKey(rand.Reader, "release")
	if err != nil {
		panic(err)
	}
	s, err := note.NewSigner(secret)
	if err != nil {
		panic(err)
	}
	ring, err := manifest.NewKeys(1, public)
	if err != nil {
		panic(err)
	}
	return s, ring
})

// world is a terminal: its machine, its counter, its agent and the folders between them.
type world struct {
	failf   func(format string, args ...any)
	m       *raucfake.Machine
	dir     string
	central string // inbox
	stick   string // inbox
	counter *counter
	bus     update.Installer // nil for the machine itself
	dead    map[int64]bool   // releases that do not come up
	sick    map[int64]bool   // releases whose daemon does not answer
	uptime  time.Duration
	agent   *update.Agent
	step    func(name string)
	steps   []string
	killed  bool // while RAUC installs
}

// counter is a daemon that pays.
type counter struct {
	down    bool // it does not answer
	paying  bool // somebody is being paid, or a slip comes out
	open    bool // a clerk works: it is not idle
	ledger  string
	devices []string
	paused  bool
	must    bool // the last pause was asked for so
	active  func() time.Duration
}

var errDown = errors.New("terminald does not answer")

func (c *counter) Ready(context.Context) (update.Readiness, error) {
	if c.down {
		return update.Readiness{}, errDown
	}
	return update.Readiness{Active: c.active(), Ledger: c.ledger, Devices: c.devices}, nil
}

func (c *counter) Pause(_ context.Context, _ time.Duration, must bool) (bool, string, error) {
	if c.down {
		return false, "", errDown
	}
	c.must = must
	switch {
	case c.paying:
		return false, "a payment is under way", nil
	case c.open && !must:
		return false, "somebody is signed on", nil
	}
	c.paused = true
	return true, "", nil
}

func (c *counter) Release(context.Context) error { c.paused = false; return nil }

func newWorld(dir string, failf func(string, ...any)) *world {
	w := &world{failf: failf, m: raucfake.New(board, "1.0.0", 10), dir: filepath.Join(dir, "agent"), central: filepath.Join(dir, "central"), stick: filepath.Join(dir, "stick"),
		dead: map[int64]bool{}, sick: map[int64]bool{}}
	w.counter = &counter{devices: []string{"printer", "scanner"}, active: func() time.Duration { return max(0, w.uptime-20*time.Second) }}
	for _, d := range []string{w.central, w.stick} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			failf("%v", err)
		}
	}
	return w
}

// start starts the agent, as its unit does after the machine's start and after its end.
func (w *world) start() error {
	_, ring := keys()
	w.counter.down = w.sick[w.m.Running().Number]
	var installer update.Installer = killable{w.m, w}
	if w.bus != nil {
		installer = w.bus
	}
	a, err := update.New(context.Background(), update.Options{Dir: w.dir, Inboxes: []update.Inbox{{Dir: w.stick, Source: update.Stick}, {Dir: w.central, Source: update.Central}},
		Keys: ring, Running: w.m.Running(), Installer: installer, Counter: w.counter, Restart: w.restart, Boot: w.m.Boot(), Uptime: func() time.Duration { return w.uptime },
		Step: func(name string) {
			w.steps = append(w.steps, name)
			if w.step != nil {
				w.step(name)
			}
		}})
	w.agent = a
	return err
}

// restarted is what a restart ends the agent with.
type restarted struct{}

// crashed is the end of the agent; cut that of the whole machine.
type crashed struct{ cut bool }

// killable is RAUC as an agent sees it that is killed meanwhile: RAUC goes on to the end.
type killable struct {
	*raucfake.Machine
	w *world
}

func (k killable) Install(ctx context.Context, path string, progress func(int)) error {
	err := k.Machine.Install(ctx, path, progress)
	if k.w.killed {
		k.w.killed = false
		panic(crashed{})
	}
	return err
}

// end ends the agent at a step of its own, or of RAUC's.
func (w *world) end(cut, inRauc bool) {
	if inRauc && !cut {
		w.killed = true
		return
	}
	panic(crashed{cut})
}

func (w *world) restart(context.Context) error {
	if w.counter.paying {
		w.failf("the machine is restarted while somebody is being paid")
	}
	if !w.counter.paused && !w.counter.down {
		w.failf("the machine is restarted without leave")
	}
	panic(restarted{})
}

// power starts the machine again, however it went down.
func (w *world) power() {
	w.close()
	if !w.m.Start(func(n int64) bool { return !w.dead[n] }) {
		w.failf("no slot can be booted: %v", w.m.Bootable())
	}
	w.uptime, w.counter.paused, w.killed = 0, false, false
	w.counter.devices = []string{"printer", "scanner"}
}

func (w *world) close() {
	if w.agent != nil {
		_ = w.agent.Close()
		w.agent = nil
	}
}

// round lets the agent do one step, through every end that it may find. Still is true
// when it waits.
func (w *world) round() (still bool) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case restarted:
			w.power()
		case crashed:
			if x.cut {
				w.power()
			} else {
				w.close()
			}
		default:
			panic(x)
		}
	}()
	if w.agent == nil {
		if err := w.start(); err != nil {
			w.failf("the agent does not start: %v", err)
		}
	}
	wait, err := w.agent.Step(context.Background())
	w.uptime += max(wait, time.Second)
	return wait > 0 || err != nil
}

// settle goes on until the agent is idle and has nothing to do, or waits for people.
func (w *world) settle() update.State {
	for range 700 {
		still := w.round()
		if w.agent == nil {
			continue
		}
		if s := w.agent.State(); still && (s.Phase == update.Idle || s.Phase == update.Waiting && s.Update.Why != "") {
			return s
		}
	}
	w.failf("the agent does not come to rest: %v", w.steps[max(0, len(w.steps)-20):])
	return update.State{}
}

// bundle is an update as a test wants it.
type bundle struct {
	number, floor int64
	board         string // of the manifest, "" for the terminal's
	foreign       bool   // signed for RAUC by somebody else
	tampered      bool
	inside        string // board in the bundle, "" for the same
	spoiled       bool   // a byte of the file was changed after it was signed
	stranger      bool   // the manifest is signed by somebody else
}

func version(number int64) string { return fmt.Sprintf("1.%d.0", number-10) }

// offer puts an update into a folder and gives its manifest's path.
func offer(dir string, b bundle) (path string, err error) {
	if b.board == "" {
		b.board = board
	}
	if b.inside == "" {
		b.inside = b.board
	}
	raw := raucfake.Bundle{Board: b.inside, Version: version(b.number), Number: b.number, Foreign: b.foreign, Tampered: b.tampered, Padding: 64}.Bytes()
	m, err := update.Describe(strings.NewReader(string(raw)), update.Manifest{Version: version(b.number), Number: b.number, Floor: b.floor, Board: b.board})
	if err != nil {
		return "", err
	}
	signer, _ := keys()
	if b.stranger {
		secret, _, err := note.GenerateKey(rand.Reader, "release")
		if err != nil {
			return "", err
		}
		if signer, err = note.NewSigner(secret); err != nil {
			return "", err
		}
	}
	signed, err := update.Sign(m, signer)
	if err != nil {
		return "", err
	}
	if b.spoiled {
		raw = slices.Clone(raw)
		raw[len(raw)-1] ^= 1
	}
	stem := filepath.Join(dir, "u"+fmt.Sprint(b.number))
	return stem + update.ManifestSuffix, errors.Join(os.WriteFile(stem+update.BundleSuffix, raw, 0o644), os.WriteFile(stem+update.ManifestSuffix, signed, 0o644))
}

func testWorld(t *testing.T) *world {
	w := newWorld(quickDir(t), t.Fatalf)
	t.Cleanup(w.close)
	return w
}

func (w *world) mustOffer(t *testing.T, dir string, b bundle) string {
	t.Helper()
	path, err := offer(dir, b)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func last(s update.State) string {
	if s.Last == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s %d", s.Last.Outcome, s.Last.Number)
}

// quick is a folder in memory, where there is one: what is tested is the order of things,
// and a disk of many users takes seconds for each sync.
func quick() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func quickDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(quick(), "update")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
