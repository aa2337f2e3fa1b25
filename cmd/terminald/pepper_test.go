package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/device/terminal"
	"grattoir/sync/central"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/ticket"
)

// shortSecrets seals and publishes a block of two-part codes, game code 1400, ten packs.
func (w *world) shortSecrets() (winners map[uint32]ticket.Code, block validate.BlockID, pepper manifest.Pepper) {
	skey, vkey, err := note.GenerateKey(rand.Reader, "short")
	w.must(err)
	signer, err := note.NewSigner(skey)
	w.must(err)
	_, err = w.central.TrustSealKey(vkey)
	w.must(err)
	tiers := []manifest.Tier{{Count: 300, Amount: 2000}}
	var csv bytes.Buffer
	w.must(seal.Sample{Layout: ticket.MI18(), GameCode: "1400", Tickets: 600, FirstPack: 1, PackSize: 60, Tiers: tiers}.Write(&csv, func(int64) {}))
	winners = map[uint32]ticket.Code{}
	for line := range strings.Lines(csv.String()) {
		digits, prize, _ := strings.Cut(strings.TrimSpace(line), ",")
		if c, err := ticket.ParseWhole(digits, ticket.MI18()); err == nil && prize != "0" {
			winners[c.Pack] = c
		}
	}
	path := filepath.Join(w.dir, "short.manifest")
	pepper = manifest.NewPepper()
	res, err := seal.Seal(w.ctx, &csv, seal.Order{Game: "old", Name: "Old", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 100, Layout: ticket.MI18(),
		Pepper: pepper, Signer: signer, Prizes: func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }}, path)
	w.must(err)
	if _, err := w.central.Publish(w.ctx, path); !errors.Is(err, central.ErrRefused) {
		w.t.Fatalf("published without its pepper: %v", err)
	}
	if _, err := w.central.PublishWithPepper(w.ctx, path, manifest.NewPepper()); !errors.Is(err, manifest.ErrWrongPepper) {
		w.t.Fatalf("published with a wrong pepper: %v", err)
	}
	_, err = w.central.PublishWithPepper(w.ctx, path, pepper)
	w.must(err)
	return winners, res.Header.Block, pepper
}

// twoPart scans a ticket and types its hidden digits.
func (s *till) twoPart(w *world, c ticket.Code) terminal.View {
	w.t.Helper()
	digits := c.Digits()
	v := s.Check(w.ctx, terminal.Scan{Text: digits[:13], AIM: 'C', Entered: validate.Scanned})
	if v.Stage != terminal.Typing {
		return v
	}
	v, err := s.Complete(w.ctx, v.ID, digits[13:])
	w.must(err)
	return v
}

// TestPepperComesToTheOwnerOfThePacksAloneAndIsKeptSealed follows a block of short
// secrets: its owner's till proves and, where policy allows it, pays its tickets with no
// network and after a restart; another till has the same file and can tell nothing.
func TestPepperComesToTheOwnerOfThePacksAloneAndIsKeptSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 5)
		defer w.close()
		winners, block, pepper := w.shortSecrets()
		w.enrol("T-1", 1, 4)
		w.enrol("T-2", 5, 8)
		owner, other := w.tills[0], w.tills[1]
		time.Sleep(time.Minute)
		synctest.Wait()
		if v := owner.twoPart(w, winners[3]); v.Verdict.Reason != validate.BlockNotHere {
			t.Fatalf("before it owns a pack of the block: %s, %s", v.Verdict.Reason, v.Detail)
		}
		_, err := w.central.Deliver(w.ctx, "1400", 3, 4, "T-1")
		w.must(err)
		_, err = w.central.Activate(w.ctx, "1400", 3, 4)
		w.must(err)
		time.Sleep(time.Minute)
		synctest.Wait()

		v := owner.twoPart(w, winners[3])
		if v.Verdict.Reason != validate.NeedsCentral || *v.Verdict.AmountMinor != 2000 {
			t.Fatalf("a policy that pays no short secrets: %s, %s", v.Verdict.Reason, v.Detail)
		}
		if v := other.twoPart(w, winners[3]); v.Verdict.Reason != validate.BlockNotHere || v.Verdict.AmountMinor != nil {
			t.Fatalf("another till: %+v, %s", v.Verdict, v.Detail)
		}
		for _, s := range w.tills {
			w.noPepperOnDisk(s, pepper)
		}

		// With no network, after a restart, where policy pays it.
		w.net.down(time.Hour)
		owner.stop(w)
		owner.weak = 2000
		owner.start(w)
		v = owner.twoPart(w, winners[4])
		if v.Verdict.Reason != validate.Winner {
			t.Fatalf("%s, %s", v.Verdict.Reason, v.Detail)
		}
		if v, err = owner.Pay(w.ctx, v.ID, terminal.Confirmed{}); err != nil || v.Receipt == nil {
			t.Fatalf("%+v %v", v.Verdict, err)
		}
		w.net.mend()
		w.settle(owner)
		var credited int
		w.must(w.central.Reader().QueryRow("SELECT count(*) FROM claims WHERE block_id = ?", block[:]).Scan(&credited))
		if credited != 1 {
			t.Errorf("central credited %d claims of the block", credited)
		}
		w.bySneaker(owner, other, block)
	})
}

// bySneaker carries a pepper on a stick: the file opens the block on its own terminal, and
// on no other.
func (w *world) bySneaker(owner, other *till, block validate.BlockID) {
	w.t.Helper()
	sealed, err := w.central.SealedPepper(w.ctx, "T-1", block)
	w.must(err)
	if _, err := w.central.SealedPepper(w.ctx, "T-2", block); !errors.Is(err, central.ErrNotFound) {
		w.t.Errorf("a pepper for a terminal that owns no pack: %v", err)
	}
	for _, s := range []*till{owner, other} {
		w.must(os.WriteFile(filepath.Join(s.config.Manifests(), "stick.pepper"), []byte(sealed.Text()), 0o600))
		w.must(s.blocks.rescan(context.Background()))
		if locked := len(s.blocks.lackPeppers()) > 0; locked == (s == owner) {
			w.t.Errorf("%s: locked %v", s.config.Name, locked)
		}
	}
}

// noPepperOnDisk looks for the pepper in every file of a till.
func (w *world) noPepperOnDisk(s *till, p manifest.Pepper) {
	w.t.Helper()
	hex := strings.TrimSpace(p.Text())
	hex = hex[len(hex)-64:]
	w.must(filepath.WalkDir(s.config.Data, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, p[:]) || strings.Contains(string(text), hex) {
			w.t.Errorf("%s holds the pepper in clear", path)
		}
		return err
	}))
}
