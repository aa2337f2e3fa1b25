package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// weak is a block of a layout with short secrets and its pepper.
func weak(t testing.TB, l ticket.Layout) fixture {
	t.Helper()
	f := newFixture(t, 2530)
	var csv bytes.Buffer
	s := Sample{Layout: l, GameCode: "399", Tickets: 2530, FirstPack: 10, PackSize: 60, Tiers: smallTiers, Seed: t.Name()}
	if err := s.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	f.csv, f.order.Layout, f.order.Pepper = csv.Bytes(), l, manifest.NewPepper()
	return f
}

func TestShortSecretsProveEveryTicketWithTheirPepperAndNothingWithoutIt(t *testing.T) {
	for _, l := range []ticket.Layout{ticket.TX24(), ticket.MI18()} {
		t.Run(l.Name, func(t *testing.T) {
			f := weak(t, l)
			path, res := f.seal(t)
			b := open(t, path, f.keys)
			if !b.LacksPepper() || !res.Header.Weak() || res.Header.Pepper != f.order.Pepper.Commitment(res.Header.Block) {
				t.Fatalf("header %+v", b.Header)
			}
			codes := f.codes(t)
			if _, err := b.Open(context.Background(), codes[0].code); !errors.Is(err, manifest.ErrNeedsPepper) {
				t.Fatalf("without its pepper: %v", err)
			}
			for _, wrong := range []manifest.Pepper{manifest.NewPepper(), {}} {
				if err := b.SetPepper(wrong); !errors.Is(err, manifest.ErrWrongPepper) || !b.LacksPepper() {
					t.Fatalf("a wrong pepper: %v", err)
				}
			}
			if err := b.SetPepper(f.order.Pepper); err != nil || b.LacksPepper() {
				t.Fatal(err)
			}
			for _, c := range codes {
				tier, err := b.Open(context.Background(), c.code)
				if want := 1 + slices.IndexFunc(smallTiers, func(r manifest.Tier) bool { return r.Amount == c.prize }); err != nil || tier != want {
					t.Fatalf("%v: tier %d, want %d: %v", c.code, tier, want, err)
				}
			}
			wrong := codes[7].code
			wrong, err := ticket.Make(l, "399", wrong.Pack, wrong.Number, other(wrong.Secret()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Open(context.Background(), wrong); !errors.Is(err, manifest.ErrNotAuthentic) {
				t.Fatalf("a wrong secret: %v", err)
			}
		})
	}
}

// other is a secret of the same length with another first digit.
func other(secret string) string { return string('0'+(secret[0]-'0'+1)%10) + secret[1:] }

type priced struct {
	code  ticket.Code
	prize money.Amount
}

func (f fixture) codes(t testing.TB) (out []priced) {
	t.Helper()
	for _, line := range strings.Split(strings.TrimSpace(string(f.csv)), "\n")[1:] {
		digits, prize, _ := strings.Cut(line, ",")
		c, err := ticket.ParseWhole(digits, f.order.Layout)
		if err != nil {
			t.Fatal(err)
		}
		amount, err := parseMinor([]byte(prize))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, priced{c, amount})
	}
	return out
}

func TestPepperBelongsToShortSecretsAndOnlyThere(t *testing.T) {
	f := weak(t, ticket.TX24())
	f.order.Pepper = manifest.Pepper{}
	if _, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "a")); err == nil || !strings.Contains(err.Error(), "33 bits") {
		t.Errorf("short secrets without a pepper: %v", err)
	}
	g := newFixture(t, 2530)
	g.order.Pepper = manifest.NewPepper()
	if _, err := Seal(context.Background(), bytes.NewReader(g.csv), g.order, filepath.Join(t.TempDir(), "b")); err == nil || !strings.Contains(err.Error(), "73 bits") {
		t.Errorf("long secrets with a pepper: %v", err)
	}
}

func TestReissueOfABlockKeepsItsPepper(t *testing.T) {
	f := weak(t, ticket.TX24())
	_, first := f.seal(t)
	f.order.Serial, f.order.Reissue = 2, &first.Header
	if _, again := f.seal(t); again.Header.Pepper != first.Header.Pepper || again.Header.Block != first.Header.Block {
		t.Errorf("the second issue commits to another pepper")
	}
	f.order.Pepper = manifest.NewPepper()
	if _, err := Seal(context.Background(), bytes.NewReader(f.csv), f.order, filepath.Join(t.TempDir(), "c")); err == nil || !strings.Contains(err.Error(), "another pepper") {
		t.Errorf("a second issue with another pepper: %v", err)
	}
}

func TestPepperIsShownByNoFormatting(t *testing.T) {
	p := manifest.NewPepper()
	text := strings.TrimSpace(p.Text())
	hex := text[len(text)-64:]
	if back, err := manifest.ParsePepper(text); err != nil || back != p {
		t.Fatal(back, err)
	}
	for _, s := range []string{fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s %x %d %q", p, p, p, p, p, p, p), fmt.Sprintf("%+v", struct{ P manifest.Pepper }{p})} {
		if strings.Contains(s, hex[:8]) || strings.Contains(s, fmt.Sprint(p[0], " ", p[1], " ", p[2])) {
			t.Errorf("shows the pepper: %s", s)
		}
	}
	for _, bad := range []string{"", hex, text[:len(text)-1], text + "0", strings.Replace(text, hex, strings.Repeat("0", 64), 1), strings.Replace(text, hex, strings.Repeat("x", 64), 1)} {
		if _, err := manifest.ParsePepper(bad); err == nil || len(bad) > 20 && strings.Contains(err.Error(), bad[len(bad)-8:]) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

// layout makes a layout of text.
func layout(t testing.TB, text string) ticket.Layout {
	t.Helper()
	l, err := ticket.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestShelfReadsAScanInTheLayoutOfTheBlockThatIsHere(t *testing.T) {
	// Both read 24 digits: the older one has the game code's field one digit wider.
	old := layout(t, "old24 game:5 pack:6 ticket:3 secret:10 check=none aim=I")
	f, g := weak(t, ticket.TX24()), weak(t, old)
	shelf := manifest.NewShelf()
	scan := f.codes(t)[61].code.Digits()
	if _, err := shelf.Read(scan, 'I'); !errors.Is(err, ticket.ErrLength) {
		t.Fatalf("no block has this layout, and yet: %v", err)
	}
	for _, x := range []fixture{f, g} {
		path, _ := x.seal(t)
		b := open(t, path, x.keys)
		if err := errors.Join(b.SetPepper(x.order.Pepper), shelf.Put(b)); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []fixture{f, g} {
		for _, want := range x.codes(t) {
			c, err := shelf.Read(want.code.Digits(), 'I')
			if err != nil || c.Layout.Name != x.order.Layout.Name {
				t.Fatalf("%v was read as %v: %v", want.code, c, err)
			}
			o, err := shelf.Open(context.Background(), c)
			if err != nil || o.Finding != validate.Authentic || o.Amount != want.prize || !o.Weak {
				t.Fatalf("%v: %+v %v", c, o, err)
			}
		}
	}
}

func TestCodeThatTwoBlocksReadAsTheirOwnIsAnsweredByNeither(t *testing.T) {
	f := weak(t, ticket.TX24())
	// The same digits, cut so that game and pack come out the same.
	twin := weak(t, layout(t, "twin game:4 pack:7 ticket:2 secret:11 check=none aim=I"))
	shelf := manifest.NewShelf()
	for _, x := range []fixture{f, twin} {
		path, _ := x.seal(t)
		if err := shelf.Put(open(t, path, x.keys)); err != nil && !errors.Is(err, manifest.ErrOverlap) {
			t.Fatal(err)
		}
	}
	if c, err := shelf.Read(f.codes(t)[0].code.Digits(), 'I'); !errors.Is(err, manifest.ErrAmbiguous) {
		t.Errorf("%v %v", c, err)
	}
}

func TestBlockWithoutItsPepperIsNotHere(t *testing.T) {
	f := weak(t, ticket.MI18())
	path, _ := f.seal(t)
	shelf := manifest.NewShelf()
	if err := shelf.Put(open(t, path, f.keys)); err != nil {
		t.Fatal(err)
	}
	whole := f.codes(t)[0].code
	c, err := shelf.Read(whole.Digits()[:13], 'C')
	if err != nil || !c.Partial() {
		t.Fatal(c, err)
	}
	if o, err := shelf.Open(context.Background(), c); o.Finding != validate.NoBlock && o.Finding != validate.Misread || err == nil {
		t.Errorf("a code without its hidden digits: %+v %v", o, err)
	}
	if o, err := shelf.Open(context.Background(), whole); o.Finding != validate.NoBlock || !errors.Is(err, manifest.ErrNeedsPepper) {
		t.Errorf("%+v %v", o, err)
	}
}

func TestClosedBlockAnswersNothingAndIsNotDamaged(t *testing.T) {
	f := newFixture(t, 2530)
	path, _ := f.seal(t)
	b := open(t, path, f.keys)
	var one ticket.Code
	f.eachTicket(t, func(c ticket.Code, _ money.Amount) { one = c })
	done := make(chan error)
	go func() {
		for {
			if _, err := b.Open(context.Background(), one); err != nil {
				done <- err
				return
			}
		}
	}()
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, manifest.ErrClosed) || b.Damage() != nil {
		t.Errorf("%v, damage %v", err, b.Damage())
	}
	if err := b.Verify(context.Background(), func(int) {}); !errors.Is(err, manifest.ErrClosed) {
		t.Error(err)
	}
}
