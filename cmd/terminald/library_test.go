package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// shelfFolder is a library over a folder of its own.
type shelfFolder struct {
	*library
	t      *testing.T
	signer note.Signer
}

func openFolder(t *testing.T, standAlone bool) *shelfFolder {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	c := configs.Terminal{Data: t.TempDir(), StandAlone: standAlone}
	if err := makeFolders(c); err != nil {
		t.Fatal(err)
	}
	l, err := newLibrary(c, trust{sealKeys: []string{vkey}, signatures: 1}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return &shelfFolder{l, t, signer}
}

// put seals ten packs and gives a ticket of the first.
func (f *shelfFolder) put(name, gameCode string, firstPack uint32, seed string) ticket.Code {
	f.t.Helper()
	tiers := []manifest.Tier{{Count: 20, Amount: 2000}}
	var csv bytes.Buffer
	if err := (seal.Sample{Layout: ticket.G40(), GameCode: gameCode, Tickets: 600, FirstPack: firstPack, PackSize: 60, Tiers: tiers, Seed: seed}).Write(&csv, func(int64) {}); err != nil {
		f.t.Fatal(err)
	}
	digits, _, _ := strings.Cut(strings.Split(csv.String(), "\n")[1], ",")
	code, err := ticket.Parse(digits, 0, ticket.Shipped())
	if err != nil {
		f.t.Fatal(err)
	}
	order := seal.Order{Game: "bingo", Name: "Bingo", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 1000, Layout: ticket.G40(), Signer: f.signer,
		Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}
	if _, err := seal.Seal(context.Background(), &csv, order, f.path(name)); err != nil {
		f.t.Fatal(err)
	}
	return code
}

func (f *shelfFolder) path(name string) string { return filepath.Join(f.dir, name) }

// looks rescans and says what a ticket is, and which files the status names.
func (f *shelfFolder) looks(c ticket.Code, want validate.Finding, files ...string) {
	f.t.Helper()
	if err := f.rescan(context.Background()); err != nil {
		f.t.Fatal(err)
	}
	if o, err := f.shelf.Open(context.Background(), c); o.Finding != want {
		f.t.Errorf("%v is %s, want %s (%v)", c, o.Finding, want, err)
	}
	var listed []string
	for _, b := range f.list() {
		listed = append(listed, b.File)
	}
	if !slices.Equal(listed, files) {
		f.t.Errorf("the status lists %v, want %v", listed, files)
	}
}

func TestBlockWhoseFileIsGoneIsNotHereAnyMore(t *testing.T) {
	f := openFolder(t, true)
	c := f.put("a.manifest", "777", 1, "a")
	f.looks(c, validate.Authentic, "a.manifest")
	block := f.shelf.Blocks()[0]
	if err := os.Remove(f.path("a.manifest")); err != nil {
		t.Fatal(err)
	}
	f.looks(c, validate.NoBlock)
	if _, err := block.Open(context.Background(), c); err == nil {
		t.Error("its file is still open")
	}
	if len(f.damaged()) != 0 || !f.date().IsZero() {
		t.Errorf("%v is damaged, the newest is of %v", f.damaged(), f.date())
	}
}

func TestRenamedFileStaysOnTheShelfUnderItsNewName(t *testing.T) {
	f := openFolder(t, true)
	c := f.put("a.manifest", "777", 1, "a")
	f.looks(c, validate.Authentic, "a.manifest")
	if err := os.Rename(f.path("a.manifest"), f.path("b.manifest")); err != nil {
		t.Fatal(err)
	}
	f.looks(c, validate.Authentic, "b.manifest")
	if _, held := f.held("b"); !held {
		t.Error("the new name is not known")
	}
	if _, held := f.held("a"); held {
		t.Error("the old name is still known")
	}
}

// TestFileOverwrittenInPlaceIsNoticed: the same size, the same time of writing.
func TestFileOverwrittenInPlaceIsNoticed(t *testing.T) {
	f := openFolder(t, true)
	first := f.put("a.manifest", "777", 1, "a")
	f.looks(first, validate.Authentic, "a.manifest")
	before, err := os.Stat(f.path("a.manifest"))
	if err != nil {
		t.Fatal(err)
	}
	second := f.put("b.manifest", "777", 1, "b")
	text, err := os.ReadFile(f.path("b.manifest"))
	if err := errors.Join(err, os.Remove(f.path("b.manifest")), os.WriteFile(f.path("a.manifest"), text, 0o600),
		os.Chtimes(f.path("a.manifest"), time.Time{}, before.ModTime())); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(f.path("a.manifest")); err != nil || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) || !os.SameFile(before, now) {
		t.Fatalf("this proves nothing: %v", err)
	}
	f.looks(second, validate.Authentic, "a.manifest")
}

func TestTwoBlocksOfTheSamePacksAreBothNamed(t *testing.T) {
	f := openFolder(t, true)
	c := f.put("a.manifest", "777", 1, "a")
	f.put("b.manifest", "777", 5, "b")
	f.put("c.manifest", "778", 1, "c")
	c.Pack = 6
	f.looks(c, validate.Damaged, "a.manifest", "b.manifest", "c.manifest")
	if got := f.damaged(); !slices.Equal(got, []string{"a.manifest", "b.manifest"}) {
		t.Errorf("the status names %v", got)
	}
	if list := f.list(); list[0].Overlaps != "b.manifest" || list[1].Overlaps != "a.manifest" || list[2].Overlaps != "" {
		t.Errorf("%+v", list)
	}
	if err := os.Remove(f.path("b.manifest")); err != nil {
		t.Fatal(err)
	}
	if err := f.rescan(context.Background()); err != nil || len(f.damaged()) != 0 {
		t.Errorf("once one is taken away: %v, %v", f.damaged(), err)
	}
}

// TestDamagedFileIsAnsweredWithDamageUntilAWholeOneComes: one of central's is set aside
// to be fetched again, one that was brought by hand stays where it is.
func TestDamagedFileIsAnsweredWithDamageUntilAWholeOneComes(t *testing.T) {
	for _, readable := range []bool{true, false} {
		f := openFolder(t, false)
		name := strings.Repeat("ab", 32) + ".manifest"
		c := f.put(name, "777", 1, "a")
		whole, err := os.ReadFile(f.path(name))
		if err != nil {
			t.Fatal(err)
		}
		damaged := bytes.Clone(whole)
		for i := 4096; readable && i < len(damaged); i++ {
			damaged[i] = 0
		}
		if !readable {
			damaged = damaged[:100]
		}
		for _, file := range []string{name, "hand.manifest"} {
			if err := os.WriteFile(f.path(file), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if err := f.rescan(context.Background()); err != nil {
				t.Fatal(err)
			}
			if o, _ := f.shelf.Open(context.Background(), c); o.Finding != validate.Damaged {
				t.Errorf("readable header %v: %s", readable, o.Finding)
			}
		}
		if got := f.damaged(); !slices.Equal(got, []string{name, "hand.manifest"}) {
			t.Errorf("the status names %v", got)
		}
		for file, want := range map[string]bool{name: false, name + ".damaged": true, "hand.manifest": true, "hand.manifest.damaged": false} {
			if _, err := os.Stat(f.path(file)); (err == nil) != want {
				t.Errorf("%.20s...%s is there: %v", file, filepath.Ext(file), !want)
			}
		}
		if err := os.WriteFile(f.path(name), whole, 0o600); err != nil {
			t.Fatal(err)
		}
		f.looks(c, validate.Authentic, name)
		if err := errors.Join(os.Remove(f.path(name)), os.Remove(f.path(name+".damaged")), os.Remove(f.path("hand.manifest"))); err != nil {
			t.Fatal(err)
		}
		f.looks(c, validate.NoBlock)
	}
}

// TestBlockWithoutItsPepperTakesNothingsPlace: the link keeps an earlier issue until this
// one answers.
func TestBlockWithoutItsPepperTakesNothingsPlace(t *testing.T) {
	f := openFolder(t, true)
	tiers := []manifest.Tier{{Count: 20, Amount: 2000}}
	var csv bytes.Buffer
	if err := (seal.Sample{Layout: ticket.TX24(), GameCode: "777", Tickets: 600, FirstPack: 1, PackSize: 60, Tiers: tiers}).Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	pepper := manifest.Pepper{1, 2, 3}
	order := seal.Order{Game: "bingo", Name: "Bingo", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 1000, Layout: ticket.TX24(), Signer: f.signer, Pepper: pepper,
		Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}
	if _, err := seal.Seal(context.Background(), &csv, order, f.path("w.manifest")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		if err := f.rescan(context.Background()); err != nil {
			t.Fatal(err)
		}
		if h, ok := f.held("w"); !ok || h.Sound != want {
			t.Errorf("with its pepper %v: %+v", want, h)
		}
		if err := os.WriteFile(f.path("w.pepper"), []byte(pepper.Text()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTillDropsAndReplacesBlocksWhileItSells joins a real central and a real till: a
// closed emission goes, a new issue takes the old one's place, and what is sold meanwhile
// is answered all the time.
func TestTillDropsAndReplacesBlocksWhileItSells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.close()
		other, _ := w.seal("400", "2", 1, nil)
		_, err := w.central.Publish(w.ctx, other)
		w.must(err)
		w.enrol("T-1", 1, 4)
		s := w.tills[0]
		w.must(w.central.SetRegion(w.ctx, "T-1", "bzh"))
		sell := func(d time.Duration) {
			t.Helper()
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				s.serveOne(w)
			}
		}
		files := func() (n int) {
			list, err := filepath.Glob(filepath.Join(s.config.Manifests(), "*.manifest"))
			w.must(err)
			return len(list)
		}
		time.Sleep(2 * time.Minute)
		if n := files(); n != 2 || len(s.blocks.list()) != 2 {
			t.Fatalf("%d files", n)
		}
		ask := func() validate.Reason {
			c, err := ticket.Make(ticket.G40(), "400", 1, 0, strings.Repeat("0", 22))
			w.must(err)
			return s.Check(w.ctx, terminal.Scan{Text: c.Digits(), Entered: validate.Scanned}).Verdict.Reason
		}
		if r := ask(); r != validate.NotAuthentic {
			t.Fatalf("before: %s", r)
		}

		_, err = w.central.CloseEmission(w.ctx, "bingo", "2", policy.Date{Year: 1999, Month: 1, Day: 4}, 30, true)
		w.must(err)
		sell(2 * time.Minute)
		if n, r := files(), ask(); n != 1 || r != validate.BlockNotHere {
			t.Errorf("after its day: %d files, a ticket of it is %s", n, r)
		}

		// What central lists is known with no network too: a missing block is no unknown game.
		s.stop(w)
		w.net.down(time.Hour)
		s.start(w)
		if r := ask(); r != validate.BlockNotHere {
			t.Errorf("after a restart with no network: %s", r)
		}
		w.net.mend()

		again, h := w.seal("399", "1", 2, &s.blocks.shelf.Blocks()[0].Header)
		_, err = w.central.Publish(w.ctx, again)
		w.must(err)
		sell(2 * time.Minute)
		if b := s.blocks.shelf.Blocks(); files() != 1 || len(b) != 1 || b[0].Header.Serial != 2 || b[0].Header.Block != h.Block {
			t.Errorf("%d files, blocks %v", files(), s.blocks.list())
		}
		link := s.way.status()
		if len(link.Faults) != 0 || len(link.Missing) != 0 || link.Region != "bzh" || link.TakenBytes == 0 || link.QuotaBytes != 100<<20 {
			t.Errorf("%+v", link)
		}
		if w.paid == 0 {
			t.Error("nothing was sold meanwhile: this proves nothing")
		}
	})
}

// TestRunningTerminalDropsAClosedEmission, as the real programs, over their own commands.
func TestRunningTerminalDropsAClosedEmission(t *testing.T) {
	l := openLinked(t)
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 1 && st.Link.Feed > 0 })
	l.run(t, nil, "game", "close", "bingo", "--emission", "1", "--on", "2001-04-01", "--past")
	if err := l.Stop(); err != nil { // it hears of it at once when it starts
		t.Fatal(err)
	}
	l.start(t)
	l.await(t, func(st control.Status) bool { return len(st.Blocks) == 0 })
	if a := l.again(t, l.codes["2000"][0]); a.Verdict.Reason != validate.BlockNotHere {
		t.Errorf("%s, %s", a.Verdict.Reason, a.Detail)
	}
}
