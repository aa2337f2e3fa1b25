package seal

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// small seals a block of one pack of a game code and gives its path and its tickets.
func (f fixture) small(t testing.TB, dir, gameCode, emission string, number int, pack uint32) (string, []ticket.Code) {
	t.Helper()
	tiers := []manifest.Tier{{Count: 5, Amount: 2000}}
	var csv bytes.Buffer
	s := Sample{Layout: ticket.G40(), GameCode: gameCode, Tickets: 60, FirstPack: pack, PackSize: 60, Tiers: tiers, Seed: fmt.Sprint(gameCode, number)}
	if err := s.Write(&csv, func(int64) {}); err != nil {
		t.Error(err)
	}
	var codes []ticket.Code
	for line := range strings.Lines(csv.String()) {
		digits, _, _ := strings.Cut(line, ",")
		if c, err := ticket.Parse(digits, 0, ticket.Shipped()); err == nil {
			codes = append(codes, c)
		}
	}
	o := f.order
	o.Emission, o.Number = emission, number
	o.Prizes = func(int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }
	path := filepath.Join(dir, fmt.Sprintf("%s-%d.manifest", gameCode, number))
	if _, err := Seal(context.Background(), &csv, o, path); err != nil {
		t.Error(err)
	}
	return path, codes
}

// TestHundredsOfBlocksEachAnswerTheirOwnTickets puts 300 blocks on one shelf: 50 games,
// each with two emissions side by side, each of three blocks with neighbouring packs.
func TestHundredsOfBlocksEachAnswerTheirOwnTickets(t *testing.T) {
	f := newFixture(t, 600)
	dir := t.TempDir()
	shelf := manifest.NewShelf()
	t.Cleanup(func() { _ = shelf.Close() })
	type printed struct {
		emission string
		number   int
		path     string
		codes    []ticket.Code
	}
	all := make([]printed, 300)
	var sealing sync.WaitGroup // each waits for the disk
	for game := range 50 {
		sealing.Go(func() {
			g := f
			g.order.Game, g.order.Name = fmt.Sprintf("game-%d", game), fmt.Sprintf("Game %d", game)
			for i := range 6 {
				p := printed{emission: fmt.Sprint(1 + i/3), number: 1 + i%3}
				p.path, p.codes = g.small(t, dir, fmt.Sprint(10000+10*game+i/3), p.emission, p.number, uint32(6+p.number))
				all[6*game+i] = p
			}
		})
	}
	sealing.Wait()
	for _, p := range all {
		b, err := manifest.Open(context.Background(), p.path, f.keys)
		if err != nil {
			t.Fatal(err)
		}
		if err := shelf.Put(b); err != nil {
			t.Fatal(err)
		}
	}
	if n, pairs := len(shelf.Blocks()), shelf.Overlaps(); n != 300 || len(pairs) != 0 {
		t.Fatalf("%d blocks, %d overlaps", n, len(pairs))
	}
	for i, p := range all {
		for _, c := range p.codes {
			o, err := shelf.Open(context.Background(), c)
			if o.Finding != validate.Authentic || o.Game != fmt.Sprintf("game-%d", i/6) || o.Emission != p.emission || o.Number != p.number {
				t.Fatalf("%v: %s of %s, emission %s, block %d, %v", c, o.Finding, o.Game, o.Emission, o.Number, err)
			}
		}
	}
	// The same pack and ticket under the other emission's game code is another ticket.
	a, b := all[0].codes[0], all[3].codes[0]
	swapped, err := ticket.Make(ticket.G40(), b.Game, a.Pack, a.Number, a.Secret())
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := shelf.Open(context.Background(), swapped); o.Finding != validate.Counterfeit || o.Emission != "2" {
		t.Errorf("a secret of emission 1 in emission 2: %s of emission %s", o.Finding, o.Emission)
	}
}

// TestBlocksComeAndGoUnderLookUps replaces a block by a newer issue again and again, while
// others look its tickets up: every answer is right, none meets a closed file.
func TestBlocksComeAndGoUnderLookUps(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	var codes []ticket.Code
	for line := range strings.Lines(string(f.csv)) {
		digits, _, _ := strings.Cut(line, ",")
		if c, err := ticket.Parse(digits, 0, ticket.Shipped()); err == nil {
			codes = append(codes, c)
		}
	}
	shelf := manifest.NewShelf()
	put := func() *manifest.Block {
		b, err := manifest.Open(context.Background(), path, f.keys)
		if err != nil {
			t.Fatal(err)
		}
		if err := shelf.Put(b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := put()
	var looking sync.WaitGroup
	stop := make(chan struct{})
	for n := range 4 {
		looking.Go(func() {
			for i := n; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if o, err := shelf.Open(context.Background(), codes[i%len(codes)]); o.Finding != validate.Authentic {
					t.Errorf("%s, %v", o.Finding, err)
					return
				}
			}
		})
	}
	for range 100 {
		next := put()
		if err := shelf.Remove(b); err != nil {
			t.Error(err)
		}
		b = next
	}
	close(stop)
	looking.Wait()
	if err := shelf.Close(); err != nil {
		t.Error(err)
	}
}

func TestTicketOfARemovedBlockIsOfABlockThatIsNotHere(t *testing.T) {
	f := newFixture(t, 600)
	path, codes := f.small(t, t.TempDir(), "777", "1", 1, 3)
	shelf := manifest.NewShelf()
	if o, _ := shelf.Open(context.Background(), codes[0]); o.Finding != validate.NoGame {
		t.Fatalf("before: %s", o.Finding)
	}
	b := open(t, path, f.keys)
	if err := shelf.Put(b); err != nil {
		t.Fatal(err)
	}
	if o, err := shelf.Open(context.Background(), codes[0]); o.Finding != validate.Authentic {
		t.Fatalf("on the shelf: %s %v", o.Finding, err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := shelf.Remove(b); err != nil {
			t.Fatal(err)
		}
	}
	if o, _ := shelf.Open(context.Background(), codes[0]); o.Finding != validate.NoBlock || len(shelf.Blocks()) != 0 {
		t.Fatalf("removed: %s", o.Finding)
	}
	if _, err := b.Open(context.Background(), codes[0]); err == nil {
		t.Error("a removed block's file is still open")
	}
}

// TestOlderIssueAnswersAgainWhenTheNewerIsTakenAway: what is in reserve is not lost.
func TestOlderIssueAnswersAgainWhenTheNewerIsTakenAway(t *testing.T) {
	f := newFixture(t, 600)
	path, res := f.seal(t)
	old := open(t, path, f.keys)
	f.order.Serial, f.order.Reissue = 2, &res.Header
	next, _ := f.seal(t)
	newer := open(t, next, f.keys)
	shelf := manifest.NewShelf()
	for _, b := range []*manifest.Block{newer, old} {
		if err := shelf.Put(b); err != nil {
			t.Fatal(err)
		}
	}
	if list := shelf.Blocks(); len(list) != 1 || list[0] != newer {
		t.Fatalf("%d blocks answer", len(list))
	}
	if err := shelf.Remove(newer); err != nil {
		t.Fatal(err)
	}
	if list := shelf.Blocks(); len(list) != 1 || list[0] != old || len(shelf.Overlaps()) != 0 {
		t.Fatalf("%d blocks answer", len(list))
	}
}
