package seal

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

var smallTiers = []manifest.Tier{{Count: 1, Amount: 100000000}, {Count: 3, Amount: 20000}, {Count: 40, Amount: 2000}}

type fixture struct {
	order  Order
	public string
	keys   manifest.Keys
	csv    []byte
}

func newFixture(t testing.TB, tickets int64) fixture {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, "test-lottery")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.NewKeys(1, vkey)
	if err != nil {
		t.Fatal(err)
	}
	var csv bytes.Buffer
	s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: tickets, FirstPack: 10, PackSize: 60, Tiers: smallTiers, Seed: t.Name()}
	if err := s.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	return fixture{csv: csv.Bytes(), keys: keys, public: vkey, order: Order{Game: "bingo", Name: "Bingo", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 1000,
		Layout: ticket.G40(), Signer: signer, Prizes: func(int64) ([]manifest.Tier, bool, error) { return smallTiers, true, nil }}}
}

func (f fixture) seal(t testing.TB) (string, Result) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b.manifest")
	res, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, path)
	if err != nil {
		t.Fatal(err)
	}
	return path, res
}

func open(t testing.TB, path string, keys manifest.Keys) *manifest.Block {
	t.Helper()
	b, err := manifest.Open(context.Background(), path, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// eachTicket calls use with every code of tickets.csv and its prize.
func (f fixture) eachTicket(t testing.TB, use func(ticket.Code, money.Amount)) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(string(f.csv)), "\n")[1:] {
		digits, prize, _ := strings.Cut(line, ",")
		c, err := ticket.Parse(digits, 0, ticket.Shipped())
		if err != nil {
			t.Fatal(err)
		}
		amount, err := parseMinor([]byte(prize))
		if err != nil {
			t.Fatal(err)
		}
		use(c, amount)
	}
}

func TestSealedBlockProvesEveryTicket(t *testing.T) {
	f := newFixture(t, 2530) // the last chunk and the last pack are short
	path, res := f.seal(t)
	b := open(t, path, f.keys)
	if res.Header.Root != b.Header.Root || b.Header.PackSize != 60 || b.Header.FirstPack != 10 || b.Header.Tickets != 2530 {
		t.Fatalf("header %+v", b.Header)
	}
	seen := map[int]int64{}
	f.eachTicket(t, func(c ticket.Code, prize money.Amount) {
		tier, err := b.Open(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		want := 1 + slices.IndexFunc(smallTiers, func(r manifest.Tier) bool { return r.Amount == prize })
		if tier != want {
			t.Fatalf("%v: tier %d, want %d", c, tier, want)
		}
		seen[tier]++
	})
	if seen[1] != 1 || seen[2] != 3 || seen[3] != 40 || seen[0] != 2530-44 {
		t.Fatalf("%v", seen)
	}
}

func TestForgedSecretIsNotAuthenticAndNeverALoser(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	b := open(t, path, f.keys)
	f.eachTicket(t, func(c ticket.Code, _ money.Amount) {
		other := []byte(c.Secret())
		other[21] = '0' + (other[21]-'0'+1)%10
		forged, err := ticket.Make(c.Layout, c.Game, c.Pack, c.Number, string(other))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Open(context.Background(), forged); !errors.Is(err, manifest.ErrNotAuthentic) {
			t.Fatalf("%v: %v", forged, err)
		}
	})
}

func TestSecretOfAnotherTicketOpensNothing(t *testing.T) {
	f := newFixture(t, 120)
	path, _ := f.seal(t)
	b := open(t, path, f.keys)
	var before ticket.Code
	f.eachTicket(t, func(c ticket.Code, _ money.Amount) {
		if before.Game != "" {
			moved, err := ticket.Make(c.Layout, c.Game, c.Pack, c.Number, before.Secret())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Open(context.Background(), moved); !errors.Is(err, manifest.ErrNotAuthentic) {
				t.Fatalf("%v: %v", moved, err)
			}
		}
		before = c
	})
}

func TestTagIsTheSameWithBothImplementations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching("[0-9]{1,32}").Draw(t, "secret")
		block := validate.BlockID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "block"))
		index := rapid.Uint32().Draw(t, "index")
		tier := rapid.Byte().Draw(t, "tier")
		pepper := manifest.Pepper(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "pepper"))
		want := manifest.NewTagger(pepper, secret, block, int64(index)).Tag(tier)
		if got := appendTag(nil, pepper, []byte(secret), block, index, tier); !bytes.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
		if got := unpackSecret(packSecret(secret), make([]byte, len(secret))); string(got) != secret {
			t.Fatal("a packed secret comes back changed")
		}
	})
}

func TestSealRefusesTicketsThatDisagree(t *testing.T) {
	f := newFixture(t, 600)
	lines := strings.Split(strings.TrimSpace(string(f.csv)), "\n")
	winner := slices.IndexFunc(lines, func(s string) bool { return strings.HasSuffix(s, ",2000") })
	loser := slices.IndexFunc(lines, func(s string) bool { return strings.HasSuffix(s, ",0") })
	code := func(n int) string { return lines[n][:40] }
	remake := func(n int, change func(c *ticket.Code) (uint32, uint16, string)) string {
		c, err := ticket.Parse(code(n), 0, ticket.Shipped())
		if err != nil {
			t.Fatal(err)
		}
		pack, number, secret := change(&c)
		c, err = ticket.Make(c.Layout, "399", pack, number, secret)
		if err != nil {
			t.Fatal(err)
		}
		return c.Digits()
	}
	for _, tc := range []struct {
		name string
		edit func([]string) []string
		says []string
	}{
		{"no header", func(l []string) []string { return l[1:] }, []string{"line 1", CSVHeader}},
		{"empty", func([]string) []string { return nil }, []string{"line 1"}},
		{"no tickets", func(l []string) []string { return l[:1] }, []string{"no ticket"}},
		{"no comma", func(l []string) []string { l[7] = code(7); return l }, []string{"line 8, column 41"}},
		{"letter in code", func(l []string) []string { l[7] = "1O" + l[7][2:]; return l }, []string{"line 8, column 1", "byte 2 of 40"}},
		{"wrong check digit", func(l []string) []string { l[7] = l[7][:39] + string('0'+('9'-l[7][39])%10) + l[7][40:]; return l }, []string{"line 8", "check digits"}},
		{"prize in euros", func(l []string) []string { l[7] = code(7) + ",20.00"; return l }, []string{"line 8, column 42", "minor units"}},
		{"negative prize", func(l []string) []string { l[7] = code(7) + ",-5"; return l }, []string{"line 8, column 42"}},
		{"two faults", func(l []string) []string { l[7], l[300] = "x", "y"; return l }, []string{"line 8", "line 301"}},
		{"endless line", func(l []string) []string { l[7] = strings.Repeat("1", 4<<20); return l }, []string{"line 8", "too long"}},
		{"a loser that wins", func(l []string) []string { l[loser] = code(loser) + ",2000"; return l }, []string{"tier 3", "the table has 40", "has 41, the first too many on line "}},
		{"a winner that loses", func(l []string) []string { l[winner] = code(winner) + ",0"; return l }, []string{"tier 3", "has 39"}},
		{"a prize of no row", func(l []string) []string { l[winner] = code(winner) + ",2100"; return l },
			[]string{fmt.Sprintf("line %d", winner+1), "2100", "tier 3"}},
		{"a line twice", func(l []string) []string { return append(l, l[5]) }, []string{"lines 6 and 602", "stands twice"}},
		{"a ticket twice with another secret", func(l []string) []string {
			l[9] = remake(5, func(c *ticket.Code) (uint32, uint16, string) { return c.Pack, c.Number, strings.Repeat("4", 22) }) + l[9][40:]
			return l
		}, []string{"lines 6 and 10", "stands twice"}},
		{"one secret for two tickets", func(l []string) []string {
			secret := l[5][16:38]
			l[9] = remake(9, func(c *ticket.Code) (uint32, uint16, string) { return c.Pack, c.Number, secret }) + l[9][40:]
			return l
		}, []string{"lines 6 and 10", "share one secret"}},
		{"a ticket missing", func(l []string) []string { return slices.Delete(l, 100, 101) }, []string{"lacks", "pack"}},
		{"tickets numbered from 2", func(l []string) []string {
			for n := 1; n < len(l); n++ {
				l[n] = remake(n, func(c *ticket.Code) (uint32, uint16, string) { return c.Pack, c.Number + 2, c.Secret() }) + l[n][40:]
			}
			return l
		}, []string{"lowest ticket number is 2"}},
		{"a pack missing", func(l []string) []string { return slices.Delete(l, 121, 181) }, []string{"lacks", "pack"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Join(tc.edit(slices.Clone(lines)), "\n")
			dir := t.TempDir()
			_, err := Seal(context.Background(), strings.NewReader(text), f.order, filepath.Join(dir, "b.manifest"))
			if err == nil {
				t.Fatal("sealed")
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("does not say %q: %v", s, err)
				}
			}
			for _, l := range lines[1:] {
				if strings.Contains(err.Error(), l[20:38]) {
					t.Fatal("the error shows a secret")
				}
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestSealRefusesAnotherGameCodeThanTheEmissions(t *testing.T) {
	f := newFixture(t, 600)
	f.order.GameCode = "462"
	_, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "b"))
	if err == nil || !strings.Contains(err.Error(), "00399") || !strings.Contains(err.Error(), "00462") {
		t.Fatal(err)
	}
}

func TestSealNeverReplacesAManifest(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	before, _ := os.ReadFile(path)
	if _, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(before, after) {
		t.Fatal("the file changed")
	}
}

func TestSealStopsWhenAskedAndLeavesNothing(t *testing.T) {
	f := newFixture(t, 600)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	if _, err := Seal(ctx, bytes.NewReader(f.csv), f.order, filepath.Join(dir, "b")); err == nil {
		t.Fatal("sealed after it was stopped")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestOnlyTheRingsKeysOpenAManifest includes the ring that wants two signatures.
func TestOnlyTheRingsKeysOpenAManifest(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	_, other, err := note.GenerateKey(rand.Reader, "test-lottery")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := manifest.NewKeys(1, other)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := manifest.Open(context.Background(), path, stranger); !errors.Is(err, manifest.ErrSignature) || b != nil {
		t.Fatalf("opened by another key of the same name: %v", err)
	}
}

func TestRingThatWantsTwoSignersRefusesAManifestWithOne(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	_, second, err := note.GenerateKey(rand.Reader, "second")
	if err != nil {
		t.Fatal(err)
	}
	both, err := manifest.NewKeys(2, f.public, second)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := manifest.Open(context.Background(), path, both); !errors.Is(err, manifest.ErrSignature) || b != nil {
		t.Fatal(err)
	}
	either, err := manifest.NewKeys(1, f.public, second)
	if err != nil {
		t.Fatal(err)
	}
	open(t, path, either)
}

// TestAnythingElseInTheFileIsDamage: a trigger or view could answer in a table's place.
func TestAnythingElseInTheFileIsDamage(t *testing.T) {
	for _, extra := range []string{"CREATE TABLE extra(x)", "CREATE INDEX i ON chunks(sealed)", "CREATE VIEW v AS SELECT 1",
		"CREATE TRIGGER t AFTER INSERT ON chunks BEGIN SELECT 1; END"} {
		f := newFixture(t, 60)
		f.order.Prizes = func(int64) ([]manifest.Tier, bool, error) { return smallTiers, true, nil }
		path, _ := f.seal(t)
		db, err := sql.Open("sqlite3", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(extra); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := manifest.Open(context.Background(), path, f.keys)
		if !errors.Is(err, manifest.ErrDamaged) || b == nil {
			t.Errorf("%s: %v", extra, err)
			continue
		}
		f.eachTicket(t, func(c ticket.Code, _ money.Amount) {
			if _, err := b.Open(context.Background(), c); !errors.Is(err, manifest.ErrDamaged) {
				t.Fatalf("%s: %v", extra, err)
			}
		})
		_ = b.Close()
	}
}

func TestTicketOfAnotherGameOrLayoutIsNotInTheBlock(t *testing.T) {
	f := newFixture(t, 60)
	path, _ := f.seal(t)
	b := open(t, path, f.keys)
	other, err := ticket.ParseLayout("x40 fixed=1 game:5 pack:7 ticket:3 secret:22 check:2 check=mod97-10")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		layout ticket.Layout
		game   string
	}{{ticket.G40(), "400"}, {other, "399"}} {
		code, err := ticket.Make(c.layout, c.game, 10, 0, strings.Repeat("1", 22))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Open(context.Background(), code); !errors.Is(err, manifest.ErrNotInBlock) {
			t.Errorf("%s %s: %v", c.layout.Name, c.game, err)
		}
	}
}

// TestPacksThatTwoBlocksClaimAreAnsweredWithDamage: a genuine winner of one must not be
// looked up in the other, where it would be a forgery, nor be paid under two names.
func TestPacksThatTwoBlocksClaimAreAnsweredWithDamage(t *testing.T) {
	f := newFixture(t, 600) // packs 10 to 19
	first, _ := f.seal(t)
	var csv bytes.Buffer
	later := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: 600, FirstPack: 15, PackSize: 60, Tiers: smallTiers, Seed: "later"}
	if err := later.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	g := f
	g.csv = csv.Bytes()
	second, _ := g.seal(t)
	for _, order := range [][]string{{first, second}, {second, first}} {
		shelf := manifest.NewShelf()
		if err := shelf.Put(open(t, order[0], f.keys)); err != nil {
			t.Fatal(err)
		}
		if err := shelf.Put(open(t, order[1], f.keys)); !errors.Is(err, manifest.ErrOverlap) {
			t.Fatal(err)
		}
		for _, tickets := range []fixture{f, g} {
			tickets.eachTicket(t, func(c ticket.Code, _ money.Amount) {
				want := validate.Authentic
				if c.Pack >= 15 && c.Pack <= 19 {
					want = validate.Damaged
				}
				if o, _ := shelf.Open(context.Background(), c); o.Finding != want {
					t.Fatalf("pack %d: %s, want %s", c.Pack, o.Finding, want)
				}
			})
		}
	}
}

func TestNewestIssueOfABlockStaysOnTheShelf(t *testing.T) {
	f := newFixture(t, 600)
	path, res := f.seal(t)
	old := open(t, path, f.keys)
	again := f
	again.order.Serial, again.order.Reissue = 2, &res.Header
	next, second := again.seal(t)
	if second.Header.Block != res.Header.Block || second.Header.Serial != 2 {
		t.Fatalf("reissued as %v, serial %d", second.Header.Block, second.Header.Serial)
	}
	newer := open(t, next, f.keys)
	for _, order := range [][]*manifest.Block{{old, newer}, {newer, old}} { // an older issue never comes back
		shelf := manifest.NewShelf()
		for _, b := range order {
			if err := shelf.Put(b); err != nil {
				t.Fatal(err)
			}
		}
		if list := shelf.Blocks(); len(list) != 1 || list[0].Header.Serial != 2 {
			t.Fatalf("%d blocks, serial %d", len(list), list[0].Header.Serial)
		}
	}
}

// TestReissueOfAnotherBlockIsRefused: claims are kept by block id, so a block sealed
// again under a new one would pay its tickets again.
func TestReissueOfAnotherBlockIsRefused(t *testing.T) {
	f := newFixture(t, 600)
	_, res := f.seal(t)
	for name, change := range map[string]func(o *Order, old *manifest.Header){
		"a later issue without the old one": func(o *Order, _ *manifest.Header) { o.Serial, o.Reissue = 2, nil },
		"the same serial":                   func(o *Order, _ *manifest.Header) { o.Serial = 1 },
		"other packs":                       func(_ *Order, old *manifest.Header) { old.FirstPack = 500 },
		"another emission":                  func(_ *Order, old *manifest.Header) { old.Emission = "2" },
	} {
		old := res.Header
		g := f
		g.order.Serial, g.order.Reissue = 2, &old
		change(&g.order, &old)
		if _, err := Seal(context.Background(), bytes.NewReader(g.csv), g.order, filepath.Join(t.TempDir(), "b")); err == nil {
			t.Errorf("%s: sealed", name)
		}
	}
}

func TestWholeCopyOfADamagedManifestAnswersInItsPlace(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.manifest")
	db, err := sql.Open("sqlite3", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var leaf []byte
	if err := db.QueryRow("SELECT hash FROM leaves WHERE chunk = 0").Scan(&leaf); err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, leaf)] ^= 1 // the header stays readable
	if err := os.WriteFile(bad, text, 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, err := manifest.Open(context.Background(), bad, f.keys)
	if damaged == nil || !errors.Is(err, manifest.ErrDamaged) {
		t.Fatalf("%v", err)
	}
	defer damaged.Close()
	whole := open(t, path, f.keys)
	for _, order := range [][]*manifest.Block{{damaged, whole}, {whole, damaged}} {
		shelf := manifest.NewShelf()
		for _, b := range order {
			if err := shelf.Put(b); err != nil {
				t.Fatal(err)
			}
		}
		f.eachTicket(t, func(c ticket.Code, _ money.Amount) {
			if o, err := shelf.Open(context.Background(), c); o.Finding != validate.Authentic {
				t.Fatalf("%s %v", o.Finding, err)
			}
		})
	}
}

// TestEveryChangedByteNeverChangesAnAnswer flips a bit of each byte of the file in
// turn (of every 13th outside make soak): the answer stays right, or is damage; it is
// never another verdict. The file's SHA-256 finds every one of them.
func TestEveryChangedByteNeverChangesAnAnswer(t *testing.T) {
	f := newFixture(t, 600)
	path, res := f.seal(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type known struct {
		code ticket.Code
		tier int
	}
	var tickets []known
	b := open(t, path, f.keys)
	f.eachTicket(t, func(c ticket.Code, _ money.Amount) {
		tier, err := b.Open(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if tier > 0 || len(tickets) == 0 || c.Number == 59 {
			tickets = append(tickets, known{c, tier})
		}
	})
	step := 13
	if os.Getenv("GRATTOIR_SOAK") != "" {
		step = 1
	}
	bad := filepath.Join(t.TempDir(), "bad.manifest")
	damaged := 0
	for at := 0; at < len(good); at += step {
		changed := bytes.Clone(good)
		changed[at] ^= 1 << (at % 8)
		if err := os.WriteFile(bad, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if sum, _ := manifest.FileSHA256(bad); sum == res.SHA256 {
			t.Fatalf("byte %d: the hash did not change", at)
		}
		b, err := manifest.Open(context.Background(), bad, f.keys)
		if b == nil {
			if !errors.Is(err, manifest.ErrSignature) && !errors.Is(err, manifest.ErrDamaged) {
				t.Fatalf("byte %d: %v", at, err)
			}
			damaged++
			continue
		}
		k := tickets[at%len(tickets)]
		tier, err := b.Open(context.Background(), k.code)
		if err == nil && tier != k.tier || err != nil && !errors.Is(err, manifest.ErrDamaged) {
			t.Fatalf("byte %d: ticket %v of tier %d became tier %d: %v", at, k.code, k.tier, tier, err)
		}
		if err != nil {
			damaged++
		}
		_ = b.Close()
	}
	if damaged == 0 {
		t.Fatal("no change was ever noticed: the test proves nothing")
	}
}

// TestChunkChangedUnderAnOpenBlockIsDamage: the tree is checked at each look-up, not only at open.
func TestChunkChangedUnderAnOpenBlockIsDamage(t *testing.T) {
	f := newFixture(t, 600)
	path, _ := f.seal(t)
	b := open(t, path, f.keys)
	db, err := sql.Open("sqlite3", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	// A thief with the printer's list would write both the chunk and its leaf anew.
	var sealed []byte
	if err := db.QueryRow("SELECT sealed FROM chunks WHERE chunk = 0").Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	copy(sealed, sealed[8:16])
	leaf := manifest.LeafHash(sealed)
	for _, q := range []struct {
		text string
		arg  []byte
	}{{"UPDATE chunks SET sealed = ? WHERE chunk = 0", sealed}, {"UPDATE leaves SET hash = ? WHERE chunk = 0", leaf[:]}} {
		if _, err := db.Exec(q.text, q.arg); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := manifest.Open(context.Background(), path, f.keys)
	if !errors.Is(err, manifest.ErrDamaged) || again == nil {
		t.Fatalf("reopened: %v", err)
	}
	_ = again.Close()
	f.eachTicket(t, func(c ticket.Code, _ money.Amount) {
		if _, err := b.Open(context.Background(), c); c.Pack == 10 && !errors.Is(err, manifest.ErrDamaged) {
			t.Fatalf("%v: %v", c, err)
		}
	})
}

func TestShelfTellsGameBlockAndTicketApart(t *testing.T) {
	f := newFixture(t, 630)
	path, _ := f.seal(t)
	shelf := manifest.NewShelf()
	if err := shelf.Put(open(t, path, f.keys)); err != nil {
		t.Fatal(err)
	}
	shelf.Know("462")
	for _, c := range []struct {
		game   string
		pack   uint32
		number uint16
		want   validate.Finding
	}{
		{"399", 10, 0, validate.Counterfeit},
		{"399", 20, 29, validate.Counterfeit}, // last ticket of the short last pack
		{"399", 20, 30, validate.NotInBlock},
		{"399", 10, 60, validate.NotInBlock},
		{"399", 9, 0, validate.NoBlock},
		{"399", 21, 0, validate.NoBlock},
		{"462", 10, 0, validate.NoBlock},
		{"777", 10, 0, validate.NoGame},
	} {
		code, err := ticket.Make(ticket.G40(), c.game, c.pack, c.number, strings.Repeat("3", 22))
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := shelf.Open(context.Background(), code); o.Finding != c.want {
			t.Errorf("%v: %s, want %s", code, o.Finding, c.want)
		}
	}
	shelf.Unreadable("other.manifest")
	code, err := ticket.Make(ticket.G40(), "399", 9, 0, strings.Repeat("3", 22))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := shelf.Open(context.Background(), code); o.Finding != validate.Damaged || err == nil {
		t.Errorf("with an unreadable file beside: %s, %v", o.Finding, err)
	}
}

func TestSampleIsRepeatableBySeedAndOtherwiseNot(t *testing.T) {
	write := func(seed string) string {
		var b bytes.Buffer
		s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: 300, FirstPack: 1, PackSize: 60, Tiers: smallTiers, Seed: seed}
		if err := s.Write(&b, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first, again := write("a"), write("a")
	if first != again || first == write("b") {
		t.Error("the same seed must give the same tickets, another seed others")
	}
	if first, again = write(""), write(""); first == again {
		t.Error("without a seed the same tickets came twice")
	}
}

// TestSamplePutsWinnersEverywhere draws many small blocks with one winner: each of the
// 20 places gets its share. The bounds are six standard deviations wide.
func TestSamplePutsWinnersEverywhere(t *testing.T) {
	const places, draws = 20, 4000
	var hits [places]int
	for range draws {
		var b bytes.Buffer
		s := Sample{Layout: ticket.G40(), GameCode: "399", Tickets: places, FirstPack: 1, PackSize: 20, Tiers: []manifest.Tier{{Count: 1, Amount: 500}}}
		if err := s.Write(&b, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(b.String(), "\n")[1 : places+1] {
			if strings.HasSuffix(line, ",500") {
				hits[i]++
			}
		}
	}
	for i, n := range hits {
		if n < 200-83 || n > 200+83 {
			t.Errorf("place %d won %d of %d times, expected about %d", i, n, draws, draws/places)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte("1003990000123017123456789012345678907755,2000"))
	f.Add([]byte("1003990000123017123456789012345678907755,"))
	f.Add([]byte(",0"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, amount, game, err := parseLine(text, ticket.G40())
		if err != nil {
			return
		}
		c, err := ticket.Make(ticket.G40(), game, r.pack, r.number, string(unpackSecret(r.secret, make([]byte, 22))))
		if err != nil || fmt.Sprintf("%s,%d", c.Digits(), amount) != string(text) {
			t.Fatal("what is accepted does not encode back to the same bytes")
		}
	})
}
