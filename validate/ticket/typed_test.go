package ticket

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func mi18(t testing.TB) Code {
	t.Helper()
	c, err := Make(MI18(), "399", 123, 17, "04711")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTwoPartCodeIsPartialUntilItsHiddenDigitsAreTyped(t *testing.T) {
	whole := mi18(t).Digits()
	c, err := Parse(whole[:13], 'C', []Layout{MI18()})
	if err != nil || !c.Partial() || c.TypedDigits() != 5 || c.String() != "0399-000123-017" {
		t.Fatalf("%v partial %v, %d digits to type: %v", c, c.Partial(), c.TypedDigits(), err)
	}
	done, err := c.Complete("04711")
	if err != nil || done.Partial() || done.TypedDigits() != 0 || done.Digits() != whole || done.Secret() != "04711" {
		t.Fatalf("%v: %v", done, err)
	}
	if !c.Partial() {
		t.Error("completing a code has changed the scanned one")
	}
}

func TestWrongHiddenDigitsAreAMisreadThatNamesNoDigit(t *testing.T) {
	c, err := Parse(mi18(t).Digits()[:13], 0, []Layout{MI18()})
	if err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]error{"": ErrEmpty, "0471": ErrLength, "047110": ErrLength, "0471x": ErrNotDigits, "0471\u0661": ErrNotDigits} {
		got, err := c.Complete(typed)
		if !errors.Is(err, want) || got.Secret() != "" {
			t.Errorf("%d bytes typed: %v, want %v", len(typed), err, want)
		} else if typed != "" && strings.Contains(err.Error(), typed) {
			t.Errorf("the error repeats what was typed: %v", err)
		}
	}
	whole := mi18(t)
	if _, err := whole.Complete("04711"); !errors.Is(err, ErrLength) {
		t.Errorf("a whole code took more digits: %v", err)
	}
}

func TestBarcodeOfATwoPartCodeHoldsItsFirstPartAndNothingElse(t *testing.T) {
	whole := mi18(t).Digits()
	for n := range len(whole) + 1 {
		if _, err := Parse(whole[:n], 'C', []Layout{MI18()}); (err == nil) != (n == 13) {
			t.Errorf("a barcode of %d digits: %v", n, err)
		}
		if _, err := ParseWhole(whole[:n], MI18()); (err == nil) != (n == 18) {
			t.Errorf("a code of %d digits in tickets.csv: %v", n, err)
		}
	}
}

func TestCheckDigitsOfATwoPartCodeCoverWhatIsScanned(t *testing.T) {
	l, err := ParseLayout("ab20 game:4 pack:6 ticket:3 check:2 secret:5 check=mod97-10 entry=typed")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Make(l, "399", 123, 17, "04711")
	if err != nil {
		t.Fatal(err)
	}
	scan := c.Digits()[:15]
	for i := range len(scan) {
		bad := scan[:i] + string('0'+(scan[i]-'0'+1)%10) + scan[i+1:]
		if _, err := Parse(bad, 0, []Layout{l}); !errors.Is(err, ErrCheckDigit) {
			t.Errorf("digit %d changed: %v", i+1, err)
		}
	}
	back, err := ParseWhole(c.Digits(), l)
	if err != nil || back.Digits() != c.Digits() {
		t.Errorf("%v: %v", back, err)
	}
}

func TestLayoutTextRefusesTwoPartCodesThatCannotBe(t *testing.T) {
	for _, text := range []string{
		"x game:4 pack:6 ticket:3 check=none entry=typed",                                                     // nothing is typed
		"x game:4 secret:5 pack:6 ticket:3 check=none entry=typed",                                            // the secret is not last
		"x game:4 pack:6 ticket:3 secret:5 check:2 check=mod97-10 entry=typed",                                // check digits nobody scans
		"x game:4 pack:6 check:2 ticket:3 secret:5 check=mod97-10 entry=typed",                                // check digits in the middle of the barcode
		"x game:4 pack:6 ticket:3 secret:5 check=none entry=scan",                                             // one spelling
		"x game:4 pack:6 ticket:3 secret:5 check=none entry=typed aim=C",                                      // one order
		"x game:4 pack:6 ticket:3 secret:5 check=none aim=C entry=typed entry=typed",                          // twice
		"x game:4 pack:6 ticket:3 secret:5 entry=typed check=none",                                            // one order
		"x game:4 pack:6 ticket:3 secret:32 fixed=1 fixed=12 check=none entry=typed",                          // fixed digits after the secret
		"x game:6 pack:9 ticket:4 fixed=1234 fixed=1234 fixed=1234 fixed=12 secret:32 check=none entry=typed", // too long
	} {
		if l, err := ParseLayout(text); err == nil {
			t.Errorf("%q was accepted as %v", text, l)
		}
	}
}

func TestEveryLayoutThatFitsAScanIsAReading(t *testing.T) {
	old, err := ParseLayout("old24 game:5 pack:6 ticket:3 secret:10 check=none aim=I")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Make(TX24(), "399", 123, 17, "1234567890")
	if err != nil {
		t.Fatal(err)
	}
	codes, err := Readings(c.Digits(), 'I', []Layout{G40(), TX24(), old})
	if err != nil || len(codes) != 2 || fmt.Sprint(codes) != "[0399-0000123-017/..90 03990-000123-017/..90]" {
		t.Errorf("%v %v", codes, err)
	}
	if _, err := Readings(c.Digits(), 'C', []Layout{TX24(), old}); !errors.Is(err, ErrSymbology) {
		t.Errorf("a Code 128 passed for an ITF: %v", err)
	}
	if _, err := Readings(c.Digits(), 'I', Known()); !errors.Is(err, ErrLength) {
		t.Errorf("a code without check digits was read though no block has its layout: %v", err)
	}
}
