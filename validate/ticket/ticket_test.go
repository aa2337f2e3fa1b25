package ticket

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const secret22 = "1234567890123456789077"

func g40(t testing.TB) Code {
	t.Helper()
	c, err := Make(G40(), "399", 123, 17, secret22)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestShippedLayoutsHaveTheirPublishedShape(t *testing.T) {
	for _, want := range []struct {
		layout       Layout
		length, bits int
		text         string
	}{
		{G40(), 40, 73, "g40 fixed=1 game:5 pack:7 ticket:3 secret:22 check:2 check=mod97-10 aim=dQ"},
		{G18(), 18, 0, "g18 fixed=2 game:5 pack:7 ticket:3 check:2 check=mod97-10 aim=ICd"},
		{TX24(), 24, 33, "tx24 game:4 pack:7 ticket:3 secret:10 check=none aim=I"},
		{MI18(), 18, 16, "mi18 game:4 pack:6 ticket:3 secret:5 check=none aim=CI entry=typed"},
	} {
		if got := want.layout; got.Length() != want.length || got.SecretBits() != want.bits || got.String() != want.text {
			t.Errorf("%s: %d digits, %d bits, %q", got.Name, got.Length(), got.SecretBits(), got.String())
		}
	}
}

func TestPrintedCodeOfG40(t *testing.T) {
	// 98 - (1003990000123017123456789012345678907700 mod 97) = 55, computed with another program's big integers.
	const want = "1003990000123017123456789012345678907755"
	if got := g40(t).Digits(); got != want {
		t.Fatalf("got %s", got)
	}
	c, err := Parse(g40(t).Digits(), 'd', Shipped())
	if err != nil || c.Game != "00399" || c.Pack != 123 || c.Number != 17 || c.Secret() != secret22 {
		t.Fatalf("%v %v", c, err)
	}
}

func TestCodeRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(Shipped()).Draw(t, "layout")
		secret := ""
		if w := l.Width(Secret); w > 0 {
			secret = rapid.StringMatching(fmt.Sprintf("[0-9]{%d}", w)).Draw(t, "secret")
		}
		c, err := Make(l, rapid.StringMatching("[0-9]{1,4}").Draw(t, "game"),
			rapid.Uint32Range(0, 999999).Draw(t, "pack"), rapid.Uint16Range(0, 999).Draw(t, "number"), secret)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseWhole(c.Digits(), l)
		if err != nil || back.Digits() != c.Digits() || back.Secret() != secret || back.Pack != c.Pack {
			t.Fatalf("%v became %v: %v", c, back, err)
		}
	})
}

func TestEveryWrongDigitAndEverySwapOfNeighboursIsAMisread(t *testing.T) {
	for _, base := range []string{g40(t).Digits(), publicDigits(t)} {
		for i := range len(base) {
			for d := byte('0'); d <= '9'; d++ {
				if d == base[i] {
					continue
				}
				bad := base[:i] + string(d) + base[i+1:]
				if _, err := Parse(bad, 0, Shipped()); err == nil {
					t.Fatalf("digit %d changed and the code was accepted", i+1)
				}
			}
			if i > 0 && base[i] != base[i-1] {
				bad := base[:i-1] + string(base[i]) + string(base[i-1]) + base[i+1:]
				if _, err := Parse(bad, 0, Shipped()); err == nil {
					t.Fatalf("digits %d and %d swapped and the code was accepted", i, i+1)
				}
			}
		}
	}
}

func publicDigits(t *testing.T) string {
	c, err := Make(G18(), "00399", 123, 17, "")
	if err != nil {
		t.Fatal(err)
	}
	return c.Digits()
}

func TestCongruentCheckDigitsThatWereNeverPrintedAreRefused(t *testing.T) {
	for pack := range uint32(2000) {
		c, err := Make(G18(), "399", pack, 17, "")
		if err != nil {
			t.Fatal(err)
		}
		good := c.Digits()
		for _, other := range []string{"00", "01", "99"} {
			if _, err := Parse(good[:16]+other, 0, Shipped()); !errors.Is(err, ErrCheckDigit) {
				t.Fatalf("check digits %s accepted for pack %d", other, pack)
			}
		}
	}
}

func TestParseNamesTheFault(t *testing.T) {
	good := g40(t).Digits()
	for _, tc := range []struct {
		name, scan string
		aim        byte
		want       error
		says       string
	}{
		{"nothing", "", 0, ErrEmpty, "empty"},
		{"letter", good[:4] + "O" + good[5:], 0, ErrNotDigits, "byte 5 of 40"},
		{"NUL", good[:39] + "\x00", 0, ErrNotDigits, "byte 40 of 40 (0x00)"},
		{"short", good[:39], 0, ErrLength, "39 digits"},
		{"two glued", good + good, 0, ErrLength, "80 digits"},
		{"other version", "9" + good[1:], 0, ErrLength, "40 digits"},
		{"barcode of a bottle", good, 'E', ErrSymbology, "'E'"},
		{"wrong check", good[:39] + string('0'+('9'-good[39])%10), 0, ErrCheckDigit, "g40"},
	} {
		_, err := Parse(tc.scan, tc.aim, Shipped())
		if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.says) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err != nil && strings.Contains(err.Error(), secret22[4:12]) {
			t.Errorf("%s: the error shows the secret", tc.name)
		}
	}
}

func TestNoFormattingShowsTheSecret(t *testing.T) {
	c := g40(t)
	js, _ := json.Marshal(map[string]any{"code": c})
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "ticket", c)
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s %q %x %d", c, c, c, c, c, c, c),
		fmt.Sprintf("%+v", struct{ C Code }{c}), string(js), log.String()} {
		if strings.Contains(s, secret22[:6]) || strings.Contains(s, secret22[10:18]) {
			t.Errorf("shows the secret: %s", s)
		}
		if !strings.Contains(s, "00399-0000123-017/..77") {
			t.Errorf("does not name the ticket: %s", s)
		}
	}
}

func TestGameCodeLongerThanItsFieldIsRefused(t *testing.T) {
	if _, err := Make(G40(), "217001", 1, 1, secret22); err == nil {
		t.Fatal("six digits in a field of five")
	}
	if _, err := Make(G40(), "", 1, 1, secret22); err == nil {
		t.Fatal("no game code")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("", byte(0))
	f.Add(strings.Repeat("1", 40), byte('d'))
	f.Add("1003990000123017123456789012345678907755", byte(0))
	f.Add("]d21003990000123017", byte(0)) // an AIM prefix left on by a mis-set scanner
	f.Fuzz(func(t *testing.T, scan string, aim byte) {
		c, err := Parse(scan, aim, Shipped())
		if err == nil && c.Digits() != scan {
			t.Fatal("what is accepted does not encode back to the same bytes")
		}
	})
}

func FuzzParseLayout(f *testing.F) {
	for _, l := range Shipped() {
		f.Add(l.String())
	}
	f.Add("x fixed=12 game:4 pack:7 ticket:3 secret:10 check=none aim=I")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLayout(text)
		if err == nil && l.String() != text {
			t.Fatal("accepted, but encodes to other bytes")
		}
	})
}
