package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// without leaves out the lines of tickets.csv that hold one of these packs and tickets.
func (f fixture) without(t testing.TB, places ...string) []byte {
	t.Helper()
	var out []string
	for i, line := range strings.Split(strings.TrimSpace(string(f.csv)), "\n") {
		keep := true
		if i > 0 {
			c, err := ticket.Parse(line[:strings.IndexByte(line, ',')], 0, []ticket.Layout{ticket.G40()})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range places {
				if p == c.PackText()+"-"+c.NumberText() {
					if keep = false; !strings.HasSuffix(line, ",0") {
						t.Fatalf("%s is a winner: choose another", p)
					}
				}
			}
		}
		if keep {
			out = append(out, line)
		}
	}
	return []byte(strings.Join(out, "\n") + "\n")
}

func (f fixture) losers(t testing.TB, n int) (places []string) {
	t.Helper()
	f.eachTicket(t, func(c ticket.Code, prize money.Amount) {
		if prize == 0 && len(places) < n {
			places = append(places, c.PackText()+"-"+c.NumberText())
		}
	})
	return places
}

func TestSealTakesMissingTicketsOnlyByName(t *testing.T) {
	f := newFixture(t, 600)
	lost := f.losers(t, 2)
	whole := f.csv
	f.csv = f.without(t, lost...)
	if _, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "b")); err == nil || !strings.Contains(err.Error(), "lacks 2 tickets") || !strings.Contains(err.Error(), "--allow-missing") {
		t.Fatalf("gaps that nobody named: %v", err)
	}
	list, err := ParseMissing(strings.ReplaceAll(strings.Join(lost, ","), "-", ":"))
	if err != nil {
		t.Fatal(err)
	}
	f.order.Missing = list
	path, res := f.seal(t)
	if res.Header.Tickets != 600 {
		t.Errorf("%d tickets, want the block's 600", res.Header.Tickets)
	}
	b := open(t, path, f.keys)
	if err := b.Verify(context.Background(), func(int) {}); err != nil {
		t.Error(err)
	}
	all := f
	all.csv = whole
	all.eachTicket(t, func(c ticket.Code, prize money.Amount) {
		tier, err := b.Open(context.Background(), c)
		name := c.PackText() + "-" + c.NumberText()
		switch missing := name == lost[0] || name == lost[1]; {
		case missing && !errors.Is(err, manifest.ErrNotAuthentic):
			t.Errorf("missing ticket %s: tier %d, %v", name, tier, err)
		case !missing && (err != nil || (tier > 0) != (prize > 0)):
			t.Errorf("ticket %s: tier %d, %v", name, tier, err)
		}
	})
}

func TestSealRefusesMissingTicketsThatAreThere(t *testing.T) {
	f := newFixture(t, 600)
	for text, want := range map[string]string{
		"10:0":  "is there, though it is named as missing",
		"9:0":   "no pack of the block has it",
		"10:60": "no pack of the block has it",
		"12":    "is there",
	} {
		list, err := ParseMissing(text)
		if err != nil {
			t.Fatal(err)
		}
		f.order.Missing = list
		_, err = Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "b"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestMissingTicketsNeverHideAPrize(t *testing.T) {
	f := newFixture(t, 600)
	lines := strings.SplitAfter(string(f.csv), "\n")
	for i, line := range lines[1:] {
		if !strings.HasSuffix(line, ",0\n") {
			c, err := ticket.Parse(line[:strings.IndexByte(line, ',')], 0, []ticket.Layout{ticket.G40()})
			if err != nil {
				t.Fatal(err)
			}
			f.csv = []byte(strings.Join(append(lines[:i+1:i+1], lines[i+2:]...), ""))
			f.order.Missing = []Missing{{c.Pack, int(c.Number), int(c.Number)}}
			break
		}
	}
	if _, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "b")); err == nil || !strings.Contains(err.Error(), "do not agree with the prize table") {
		t.Errorf("a winner was named as missing: %v", err)
	}
}

func TestParseMissingReadsWhatPeopleWrite(t *testing.T) {
	got, err := ParseMissing(" 12:3,12:7-9\n15, 16:0 ")
	want := []Missing{{12, 3, 3}, {12, 7, 9}, {15, -1, -1}, {16, 0, 0}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"a", "12:", "12:3-", "12:9-7", "12:-1", "-12:3", "12:3-99999", "99999999999:1"} {
		if _, err := ParseMissing(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestSecondSignatureIsAnotherPersons(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, 600)
	path, res := f.seal(t)
	secret, public, err := note.GenerateKey(rand.Reader, "second")
	if err != nil {
		t.Fatal(err)
	}
	two, err := manifest.NewKeys(2, f.public, public)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := manifest.Open(ctx, path, two); b != nil || !errors.Is(err, manifest.ErrSignature) {
		t.Fatalf("one signature of two: %v", err)
	}
	h, err := Cosign(ctx, path, secret+"\n", f.public)
	if err != nil || h.Block != res.Header.Block {
		t.Fatalf("%v, %v", h.Block, err)
	}
	b := open(t, path, two)
	if err := b.Verify(ctx, func(int) {}); err != nil {
		t.Error(err)
	}
	f.eachTicket(t, func(c ticket.Code, prize money.Amount) {
		if tier, err := b.Open(ctx, c); err != nil || (tier > 0) != (prize > 0) {
			t.Errorf("%v: %d, %v", c, tier, err)
		}
	})
	if sum, err := manifest.FileSHA256(path); err != nil || sum == res.SHA256 {
		t.Errorf("the file kept its name %s, %v", sum, err)
	}
	if _, err := Cosign(ctx, path, secret, ""); !errors.Is(err, ErrSignedAlready) {
		t.Errorf("the same signer twice: %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("%v was left behind, %v", files, err)
	}
}

// firstTag is the tag of the block's first ticket.
func (f fixture) firstTag(t testing.TB, path string) []byte {
	t.Helper()
	line := strings.Split(string(f.csv), "\n")[1]
	c, err := ticket.Parse(line[:strings.IndexByte(line, ',')], 0, []ticket.Layout{ticket.G40()})
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, path, f.keys)
	tier, err := b.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(manifest.NewTagger(manifest.Pepper{}, c.Secret(), b.Header.Block, 0).Tag(uint8(tier)))
}

func TestCosignRefusesWhatItCannotProveAndLeavesTheFile(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, 1500)
	path, _ := f.seal(t)
	secret, public, err := note.GenerateKey(rand.Reader, "second")
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Cosign(ctx, path, secret, public); !errors.Is(err, manifest.ErrSignature) {
		t.Errorf("not the first signer's key: %v", err)
	}
	if _, err := Cosign(ctx, path, public, ""); err == nil || strings.Contains(err.Error(), public) {
		t.Errorf("a public key for a secret one: %v", err)
	}
	damaged := filepath.Join(t.TempDir(), "d.manifest")
	text := bytes.Clone(before)
	tag := f.firstTag(t, path)
	changed := bytes.Clone(tag)
	changed[0] ^= 1
	text = bytes.ReplaceAll(text, tag, changed) // unused space of a page may hold a copy
	if bytes.Equal(text, before) {
		t.Fatal("the tag is not in the file")
	}
	if err := os.WriteFile(damaged, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Cosign(ctx, damaged, secret, ""); !errors.Is(err, manifest.ErrDamaged) {
		t.Errorf("a changed chunk: %v", err)
	}
	if after, err := os.ReadFile(damaged); err != nil || !bytes.Equal(after, text) {
		t.Errorf("the refused file was changed, %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed, %v", err)
	}
}

// TestSealTakesRealPrizeStructuresInAnyPackSize seals other countries' structures, which
// do not divide evenly by pack, scaled down, with packs of 25 to 250 from ticket 0 or 1.
func TestSealTakesRealPrizeStructuresInAnyPackSize(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "cases", "games.json"))
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("SKIPPED: other countries' prize structures are not beside the repository")
	}
	var file struct {
		Games []struct {
			ID       string
			Tickets  int64
			PackSize *int `json:"pack_size"`
			Prizes   []struct {
				Amount money.Amount `json:"prize_minor"`
				Count  int64
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil || len(file.Games) == 0 {
		t.Fatal(len(file.Games), err)
	}
	for _, g := range file.Games {
		for k, size := range []int{25, 60, 75, 100, 250} {
			tickets := min(g.Tickets, 5000+int64(k)*7) // the last pack is shorter
			var tiers []manifest.Tier
			for _, p := range g.Prizes {
				tiers = append(tiers, manifest.Tier{Count: max(1, p.Count*tickets/g.Tickets), Amount: p.Amount})
			}
			f := newFixture(t, 600)
			var csv bytes.Buffer
			s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: tickets, FirstPack: 1, PackSize: size, FirstTicket: k % 2, Tiers: tiers, Seed: g.ID}
			if err := s.Write(&csv, func(int64) {}); err != nil {
				t.Fatal(g.ID, err)
			}
			f.csv = csv.Bytes()
			f.order.Prizes = func(n int64) ([]manifest.Tier, bool, error) { return tiers, true, nil }
			path, res := f.seal(t)
			if res.Header.PackSize != size || res.Header.FirstTicket != k%2 || res.Header.Tickets != tickets {
				t.Errorf("%s: %+v", g.ID, res.Header)
			}
			b := open(t, path, f.keys)
			f.eachTicket(t, func(c ticket.Code, prize money.Amount) {
				tier, err := b.Open(context.Background(), c)
				if err != nil || (tier > 0) != (prize > 0) || tier > 0 && tiers[tier-1].Amount != prize {
					t.Fatalf("%s, packs of %d: %v: tier %d, %v", g.ID, size, c, tier, err)
				}
			})
		}
	}
}
