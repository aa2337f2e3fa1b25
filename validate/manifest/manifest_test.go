package manifest

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"grattoir/validate"
	"grattoir/validate/ticket"
)

func header() Header {
	return Header{MinReader: 1, Block: validate.BlockID{0xf4, 0xf0}, Serial: 1, Game: "bingo", Name: "Bingo", Emission: "1", GameCode: "00399", Number: 1,
		Tickets: 9000000, FirstPack: 1, PackSize: 60, Layout: ticket.G40(), Currency: "EUR", Price: 1000,
		Tiers: []Tier{{2, 100000000}, {4, 2000000}, {10, 200000}, {17900, 20000}, {60000, 10000}, {250000, 5000}, {120000, 3000}, {1806000, 2000}}}
}

// TestHeaderTextOfVersion1 is the vector that every later reader must still read.
func TestHeaderTextOfVersion1(t *testing.T) {
	const want = `grattoir manifest v1
min-reader 1
block-id f4f00000000000000000000000000000
serial 1
game bingo
name Bingo
emission 1
game-code 00399
block 1
tickets 9000000
first-pack 1
pack-size 60
first-ticket 0
layout g40 fixed=1 game:5 pack:7 ticket:3 secret:22 check:2 check=mod97-10 aim=dQ
pepper no
channel ticket
currency EUR
price 1000
tiers 8
tier 1 2 100000000
tier 2 4 2000000
tier 3 10 200000
tier 4 17900 20000
tier 5 60000 10000
tier 6 250000 5000
tier 7 120000 3000
tier 8 1806000 2000
scaled no
tag-bytes 8
chunk-tickets 500
root 0000000000000000000000000000000000000000000000000000000000000000
`
	if got := header().Text(); got != want {
		t.Fatalf("got\n%s", got)
	}
	h, err := ParseHeader(want)
	if err != nil || fmt.Sprint(h) != fmt.Sprint(header()) {
		t.Fatalf("%+v %v", h, err)
	}
}

func TestHeaderThatContradictsItselfIsRefusedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ from, to, says string }{
		"another version":      {"manifest v1", "manifest v2", "line 1"},
		"a line missing":       {"serial 1\n", "", "line 4"},
		"a line more":          {"serial 1\n", "serial 1\nserial 1\n", "line 5"},
		"a number with sign":   {"tickets 9000000", "tickets +9000000", "canonical"},
		"a leading zero":       {"tickets 9000000", "tickets 09000000", "canonical"},
		"too many prizes":      {"tier 8 1806000", "tier 8 9806000", "prizes among"},
		"tiers out of order":   {"tier 2 4", "tier 3 4", "line 21"},
		"an unpadded code":     {"game-code 00399", "game-code 399", "padded"},
		"a pepper for g40":     {"pepper no", "pepper " + strings.Repeat("ab", 32), "only there"},
		"a pepper of no hash":  {"pepper no", "pepper yes", "line 15"},
		"a pepper in capitals": {"pepper no", "pepper " + strings.Repeat("AB", 32), "canonical"},
		"packs past the code":  {"first-pack 1", "first-pack 9999999", "does not fit"},
		"a layout of no use":   {header().Layout.String(), ticket.G18().String(), "no secret"},
		"other tags":           {"tag-bytes 8", "tag-bytes 4", "line 29"},
		"text after the end":   {"root 00", "root 00\nx", "root"},
	} {
		text := strings.Replace(header().Text(), c.from, c.to, 1)
		if _, err := ParseHeader(text); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTagOfVersion1 is a vector whose value was computed with another implementation of
// HMAC-SHA-256 from the words of FORMAT.md.
func TestTagOfVersion1(t *testing.T) {
	tagger := NewTagger(Pepper{}, "1234567890123456789077", validate.BlockID{0xf4, 0xf0}, 8999999)
	for tier, want := range map[uint8]string{0: "61eb9cd5470ffd4d", 8: "549bd069897c3920"} {
		if got := hex.EncodeToString(tagger.Tag(tier)); got != want {
			t.Errorf("tier %d: %s, want %s", tier, got, want)
		}
	}
}

// TestPepperedTagOfVersion1 is a vector computed as the one above.
func TestPepperedTagOfVersion1(t *testing.T) {
	var pepper Pepper
	for i := range pepper {
		pepper[i] = byte(i)
	}
	block := validate.BlockID{0xf4, 0xf0}
	if got := hex.EncodeToString(NewTagger(pepper, "04711", block, 42).Tag(3)); got != "8b3ce126176138c4" {
		t.Errorf("tag %s", got)
	}
	commitment := pepper.Commitment(block)
	if got := hex.EncodeToString(commitment[:]); got != "69b6017522a4aff940e2dcbfa44904f7b8c7a02a08d427d5031969bf1475ac88" {
		t.Errorf("commitment %s", got)
	}
}

// TestRootIsThatOfRFC6962 compares with the tree hash of the checksum database.
func TestRootIsThatOfRFC6962(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "leaves")
		var tree Tree
		var stored []tlog.Hash
		for i := range n {
			chunk := []byte(fmt.Sprint("chunk", i))
			leaf := LeafHash(chunk)
			tree.Add(leaf)
			if leaf != Hash(tlog.RecordHash(chunk)) {
				t.Fatal("a leaf differs")
			}
			hashes, err := tlog.StoredHashesForRecordHash(int64(i), tlog.Hash(leaf), tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
				var out []tlog.Hash
				for _, k := range at {
					out = append(out, stored[k])
				}
				return out, nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, hashes...)
		}
		want, err := tlog.TreeHash(int64(n), tlog.HashReaderFunc(func(at []int64) ([]tlog.Hash, error) {
			var out []tlog.Hash
			for _, k := range at {
				out = append(out, stored[k])
			}
			return out, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if tree.Root() != Hash(want) {
			t.Fatalf("%d leaves: another root", n)
		}
	})
}

func TestRingThatWantsTwoSignersRefusesOneKeyTwice(t *testing.T) {
	var keys []string
	for _, name := range []string{"a", "b"} {
		_, public, err := note.GenerateKey(rand.Reader, name)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, public)
	}
	if _, err := NewKeys(2, keys...); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		need int
		keys []string
	}{"one key twice": {2, []string{keys[0], keys[0]}}, "none needed": {0, keys}, "more than there are": {3, keys}, "no key": {1, []string{"lottery"}}} {
		if _, err := NewKeys(c.need, c.keys...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(header().Text())
	f.Add(strings.Replace(header().Text(), "tickets 9000000", "tickets 09000000", 1))
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHeader(text)
		if err == nil && h.Text() != text {
			t.Fatal("accepted, but encodes to another text")
		}
	})
}

func TestIndexIsOneToOne(t *testing.T) {
	h := header()
	h.Tickets, h.PackSize, h.FirstTicket, h.FirstPack = 130, 50, 1, 7
	seen := map[int64]bool{}
	for pack := range uint32(20) {
		for number := range uint16(60) {
			if i, ok := h.Index(pack, number); ok {
				if i < 0 || i >= h.Tickets || seen[i] {
					t.Fatalf("pack %d ticket %d has index %d", pack, number, i)
				}
				seen[i] = true
			}
		}
	}
	if int64(len(seen)) != h.Tickets {
		t.Fatalf("%d of %d indexes", len(seen), h.Tickets)
	}
	if !bytes.Contains([]byte(h.Text()), []byte("first-ticket 1")) {
		t.Fatal("the header does not say so")
	}
}
