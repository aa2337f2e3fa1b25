package proof

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/validate"
	"grattoir/validate/money"
)

// terminal is a terminal with a key made from one byte. Its signatures are those of
// RFC 6979, so that codes can stand in a test.
type terminal struct {
	name string
	key  *ecdsa.PrivateKey
}

func newTerminal(t testing.TB, name string, seed byte) terminal {
	t.Helper()
	raw := make([]byte, 32)
	raw[31] = seed
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		t.Fatal(err)
	}
	return terminal{name, key}
}

func (k terminal) sign(text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	return k.key.Sign(nil, digest[:], crypto.SHA256)
}

func (k terminal) public() Key { return Key{Terminal: k.name, Public: &k.key.PublicKey} }

func receipt(terminal string) validate.Receipt {
	return validate.Receipt{Terminal: terminal, Number: validate.EntryNumber{Epoch: 1, Seq: 6}, Hash: strings.Repeat("6b86b273ff34fce1", 4),
		Claim: validate.Claim{Amount: 2000, Currency: "EUR", Slip: validate.SlipFacts{Game: "Bingo", GameCode: "00399", Pack: "0000123", Ticket: "017", SecretTail: "74"}}}
}

func code(t testing.TB, k terminal, r validate.Receipt) Code {
	t.Helper()
	s, err := Of(r)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Sign(k.sign)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCodeOfVersion1 is the vector that every later version must still prove: the signed
// text, the code and the published key, byte for byte.
func TestCodeOfVersion1(t *testing.T) {
	k := newTerminal(t, "T-0001", 7)
	c := code(t, k, receipt("T-0001"))
	const text = "grattoir slip v1\nkind payment\nterminal T-0001\nepoch 1\nseq 6\nhash 6b86b273ff34fce1\namount 2000 EUR\ngame 00399\npack 0000123\nticket 017\n"
	if c.Text() != text {
		t.Errorf("signed text:\n%q\nwant\n%q", c.Text(), text)
	}
	const line = "G1.T-0001.1-000006.2000EUR.00399-0000123-017.6b86b273ff34fce1." +
		"uxUfWhTyw6LApFvfELWF2S0QW5AuP4POZ7hustHRWAwLLm6WljjFaBnYHjijJyDcZSPkb4sf3YPY0lfHDV8WMw"
	if c.String() != line {
		t.Errorf("code %q", c.String())
	}
	const public = "grattoir terminal T-0001\n-----BEGIN PUBLIC KEY-----\n" +
		"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEjlM7b6C/e0YluzBmfAH7YH75+Lio\nD+9bMAYocDGHsqNz6x294DMYNm0Gn4Om9ZAAU8c2M8sEGyHFXhqGwfQAtA==\n-----END PUBLIC KEY-----\n"
	if got, err := k.public().Text(); got != public || err != nil {
		t.Errorf("key %q, %v", got, err)
	}
	old, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(public)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Verify(key); err != nil {
		t.Error(err)
	}
}

// TestEveryChangedCharacterIsRefused tries each character in each place, and each place
// with one character less or twice the same.
func TestEveryChangedCharacterIsRefused(t *testing.T) {
	k := newTerminal(t, "T-0001", 7)
	line := code(t, k, receipt("T-0001")).String()
	try := func(changed string) {
		c, err := Parse(changed)
		if err == nil {
			err = c.Verify(k.public())
		}
		if err == nil {
			t.Errorf("proven: %q", changed)
		} else if !errors.Is(err, ErrCode) && !errors.Is(err, ErrSignature) && !errors.Is(err, ErrOtherTerminal) {
			t.Errorf("%q: %v", changed, err)
		}
	}
	others := []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.+/= \n\x00\xe9")
	for i := range len(line) {
		for _, other := range others {
			if other != line[i] {
				try(line[:i] + string([]byte{other}) + line[i+1:])
			}
		}
		try(line[:i] + line[i+1:])
		try(line[:i+1] + line[i:])
	}
	for _, around := range []string{" ", "\n", "\r\n", "=", "."} {
		try(line + around)
		try(around + line)
	}
}

func TestAnotherTerminalsKeyRefuses(t *testing.T) {
	ours, other := newTerminal(t, "T-0001", 7), newTerminal(t, "T-0002", 8)
	c := code(t, ours, receipt("T-0001"))
	if err := c.Verify(other.public()); !errors.Is(err, ErrOtherTerminal) {
		t.Errorf("T-0002's key: %v", err)
	}
	renamed := Key{Terminal: "T-0001", Public: other.public().Public}
	if err := c.Verify(renamed); !errors.Is(err, ErrSignature) {
		t.Errorf("T-0002's key under the name T-0001: %v", err)
	}
	if err := c.Verify(Key{Terminal: "T-0001"}); !errors.Is(err, ErrSignature) {
		t.Errorf("no key: %v", err)
	}
	// A terminal that signs slips in another's name is found by the name beside the key.
	forged := code(t, other, receipt("T-0001"))
	for _, k := range []Key{ours.public(), other.public()} {
		if forged.Verify(k) == nil {
			t.Errorf("a slip of T-0001 made by T-0002 is proven with the key of %s", k.Terminal)
		}
	}
}

// TestAStatementHasOneCode: the other s of a signature, which any reader of a slip can
// make without the key, proves nothing.
func TestAStatementHasOneCode(t *testing.T) {
	k := newTerminal(t, "T-0001", 7)
	order := elliptic.P256().Params().N
	for n := range 20 {
		r := receipt("T-0001")
		r.Number.Seq = int64(n + 1)
		c := code(t, k, r)
		s := new(big.Int).SetBytes(c.signature[32:])
		if high(s, order) {
			t.Fatalf("entry %v is signed with the higher s", r.Number)
		}
		s.Sub(order, s).FillBytes(c.signature[32:])
		other, err := Parse(c.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Verify(k.public()); !errors.Is(err, ErrSignature) {
			t.Errorf("the other code of entry %v: %v", r.Number, err)
		}
	}
}

func TestHeadOfTheSameKeyIsNoSlip(t *testing.T) {
	k := newTerminal(t, "T-0001", 7)
	s, err := Of(receipt("T-0001"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Sign(func([]byte) ([]byte, error) {
		return k.sign(fmt.Appendf(nil, "grattoir head v1\nterminal T-0001\nepoch 1\nseq 6\nhash %s\n", strings.Repeat("6b86b273ff34fce1", 4)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(k.public()); !errors.Is(err, ErrSignature) {
		t.Errorf("%v", err)
	}
}

func TestDemonstrationStandsInTheSignedText(t *testing.T) {
	k := newTerminal(t, "T-0001", 7)
	r := receipt("T-0001")
	r.Slip.Demonstration = true
	c := code(t, k, r)
	if !strings.Contains(c.Text(), "\nkind DEMONSTRATION\n") {
		t.Errorf("signed text %q", c.Text())
	}
	paid, err := Parse("G1" + strings.TrimPrefix(c.String(), "G1D"))
	if err != nil {
		t.Fatal(err)
	}
	if err := paid.Verify(k.public()); !errors.Is(err, ErrSignature) {
		t.Errorf("a demonstration's code passes for a payment's: %v", err)
	}
}

// TestCodeShowsNoMoreOfTheTicketThanTheSlip: neither the secret nor its last two digits.
func TestCodeShowsNoMoreOfTheTicketThanTheSlip(t *testing.T) {
	r := receipt("T-0001")
	a, err := Of(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Slip.SecretTail, r.ID, r.Operator = "99", "ffffffffffffffffffffffffffffffff", "marie"
	if b, err := Of(r); err != nil || a != b {
		t.Errorf("the statement depends on what a code must not tell: %+v %+v %v", a, b, err)
	}
}

func TestOfRefusesWhatACodeCannotSay(t *testing.T) {
	for name, spoil := range map[string]func(*validate.Receipt){
		"no hash":            func(r *validate.Receipt) { r.Hash = "" },
		"half a hash":        func(r *validate.Receipt) { r.Hash = r.Hash[:32] },
		"upper-case hash":    func(r *validate.Receipt) { r.Hash = strings.ToUpper(r.Hash) },
		"no terminal":        func(r *validate.Receipt) { r.Terminal = "" },
		"accented terminal":  func(r *validate.Receipt) { r.Terminal = "Périgueux" },
		"terminal and line":  func(r *validate.Receipt) { r.Terminal = "T-1\nepoch 2" },
		"long terminal":      func(r *validate.Receipt) { r.Terminal = strings.Repeat("T", 64) },
		"no amount":          func(r *validate.Receipt) { r.Amount = 0 },
		"negative amount":    func(r *validate.Receipt) { r.Amount = -2000 },
		"huge amount":        func(r *validate.Receipt) { r.Amount = 1_000_000_000_000 },
		"no currency":        func(r *validate.Receipt) { r.Currency = "" },
		"digit in currency":  func(r *validate.Receipt) { r.Currency = "0EUR" }, // it would read as ten times the amount
		"no number":          func(r *validate.Receipt) { r.Number = validate.EntryNumber{} },
		"negative number":    func(r *validate.Receipt) { r.Number.Seq = -6 },
		"no game code":       func(r *validate.Receipt) { r.Slip.GameCode = "" },
		"lettered pack":      func(r *validate.Receipt) { r.Slip.Pack = "12a" },
		"ticket with a dash": func(r *validate.Receipt) { r.Slip.Ticket = "1-7" },
	} {
		r := receipt("T-0001")
		spoil(&r)
		if s, err := Of(r); !errors.Is(err, ErrStatement) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestSignSaysWhenTheKeyFails(t *testing.T) {
	s, err := Of(receipt("T-0001"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the chip does not answer")
	if _, err := s.Sign(func([]byte) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	order := elliptic.P256().Params().N
	whole, err := asn1.Marshal(struct{ R, S *big.Int }{big.NewInt(1), big.NewInt(1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][]byte{"nothing": nil, "words": []byte("signature"), "a tail": append(whole, 0),
		"zero": encoded(t, big.NewInt(0), big.NewInt(1)), "the order": encoded(t, big.NewInt(1), order),
		"minus": encoded(t, big.NewInt(-1), big.NewInt(1)), "40 bytes": encoded(t, new(big.Int).Lsh(order, 64), big.NewInt(1))} {
		if c, err := s.Sign(func([]byte) ([]byte, error) { return pair, nil }); err == nil {
			t.Errorf("a signature of %s gives %v", name, c)
		}
	}
}

func encoded(t *testing.T, r, s *big.Int) []byte {
	t.Helper()
	b, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// anyStatement draws a statement at and between the limits of each part.
func anyStatement(t *rapid.T) validate.Receipt {
	digits := func(name string, most int) string {
		return rapid.StringMatching(fmt.Sprintf(`[0-9]{1,%d}`, most)).Draw(t, name)
	}
	r := receipt(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}`).Draw(t, "terminal"))
	r.Number = validate.EntryNumber{Epoch: rapid.Int64Range(1, 999_999_999).Draw(t, "epoch"), Seq: rapid.Int64Range(1, 999_999_999_999).Draw(t, "seq")}
	r.Amount = money.Amount(rapid.Int64Range(1, 999_999_999_999).Draw(t, "amount"))
	r.Currency = rapid.StringMatching(`[A-Z]{3}`).Draw(t, "currency")
	r.Hash = rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "hash")
	r.Slip.GameCode, r.Slip.Pack, r.Slip.Ticket = digits("game", 6), digits("pack", 10), digits("ticket", 5)
	r.Slip.Demonstration = rapid.Bool().Draw(t, "demonstration")
	return r
}

func TestCodeComesBackAsItWasSigned(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := anyStatement(rt)
		k := newTerminal(t, r.Terminal, byte(rapid.IntRange(1, 255).Draw(rt, "key")))
		want := code(t, k, r)
		line := want.String()
		if len(line) > MaxCode || strings.ContainsFunc(line, func(c rune) bool { return c <= ' ' || c > '~' }) {
			rt.Fatalf("%d characters: %q", len(line), line)
		}
		got, err := Parse(line)
		if err != nil || got != want {
			rt.Fatalf("%q reads %+v, %v", line, got, err)
		}
		text, err := k.public().Text()
		if err != nil {
			rt.Fatal(err)
		}
		key, err := ParseKey(text)
		if err != nil {
			rt.Fatal(err)
		}
		if err := got.Verify(key); err != nil {
			rt.Fatalf("%q: %v", line, err)
		}
	})
}

// TestStatementsAreKeptApart: no two statements have the same signed text.
func TestStatementsAreKeptApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err1 := Of(anyStatement(t))
		b, err2 := Of(anyStatement(t))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if (a.Text() == b.Text()) != (a == b) || (a.line() == b.line()) != (a == b) {
			t.Fatalf("%+v and %+v", a, b)
		}
	})
}

func FuzzParse(f *testing.F) {
	k := newTerminal(f, "T-0001", 7)
	line := code(f, k, receipt("T-0001")).String()
	demonstration := receipt("shop.0042.b")
	demonstration.Slip.Demonstration = true
	for _, seed := range []string{line, code(f, k, demonstration).String(), "", "G1", line[:40],
		strings.Replace(line, "000006", "0000006", 1),  // another spelling of the number
		strings.Replace(line, ".2000", ".02000", 1),    // and of the amount
		line[:len(line)-1] + "\n" + line[len(line)-1:], // base64's decoder steps over line feeds
		line[:len(line)-1] + "_",                       // bits behind the signature
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrCode) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if c.String() != text || len(text) > MaxCode {
			t.Fatalf("%q is read as %q", text, c.String())
		}
		if text != line && c.Verify(k.public()) == nil {
			t.Fatalf("forged: %q", text)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	text, err := newTerminal(f, "T-0001", 7).public().Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(strings.ReplaceAll(text, "\n", "\r\n"))
	f.Add(text[25:])
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKey(text)
		if err != nil {
			if !errors.Is(err, ErrKey) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := k.Text()
		if err != nil || again != strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))+"\n" {
			t.Fatalf("%q is read as %q, %v", text, again, err)
		}
	})
}

func TestKeyFilesAreReadAsWritten(t *testing.T) {
	k := newTerminal(t, "T-0001", 7).public()
	text, err := k.Text()
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{"as written": text, "from another system": strings.ReplaceAll(text, "\n", "\r\n"), "from a letter": "\n" + text + "\n \n"} {
		if got, err := ParseKey(file); err != nil || got.Terminal != "T-0001" || !got.Public.Equal(k.Public) || got.Fingerprint() != k.Fingerprint() {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	_, pem, _ := strings.Cut(text, "\n")
	for name, file := range map[string]string{"nothing": "", "no name": pem, "a name that is none": strings.Replace(text, "T-0001", "T 1", 1), "two keys": text + text,
		"cut": text[:len(text)-40], "headers": strings.Replace(text, "KEY-----\n", "KEY-----\nA: b\n\n", 1), "large": text + strings.Repeat(" ", MaxKeyFile)} {
		if got, err := ParseKey(file); !errors.Is(err, ErrKey) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	_, err = ParseKey(keyTitle + "T-1\n-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
	if !errors.Is(err, ErrKey) || !strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "c2VjcmV0") {
		t.Errorf("a secret key: %v", err)
	}
	other, err := ecdsa.ParseRawPrivateKey(elliptic.P384(), append(make([]byte, 47), 7))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Key{"T-1", &other.PublicKey}).Text(); !errors.Is(err, ErrKey) {
		t.Errorf("P-384: %v", err)
	}
}

// TestOpensslProvesACode: whoever trusts no program of ours can still check a slip.
func TestOpensslProvesACode(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no openssl")
		}
		t.Skip("NO OPENSSL: the code is not checked by another program")
	}
	k := newTerminal(t, "T-0001", 7)
	c, dir := code(t, k, receipt("T-0001")), t.TempDir()
	public, err := k.public().Text()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(c.String(), ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-1])
	if err != nil {
		t.Fatal(err)
	}
	signature := encoded(t, new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:]))
	for name, content := range map[string]string{"key.pem": public, "text": c.Text(), "sig": string(signature)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("openssl", "dgst", "-sha256", "-verify", "key.pem", "-signature", "sig", "text")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
