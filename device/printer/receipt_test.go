package printer

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
	"grattoir/validate/proof"
	"grattoir/validate/ticket"
)

// signer is the code maker of a terminal whose key never changes, with the key published.
func signer(t *testing.T, terminal string) (func(validate.Receipt) (string, error), proof.Key) {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), 7))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(text []byte) ([]byte, error) {
		digest := sha256.Sum256(text)
		return key.Sign(nil, digest[:], crypto.SHA256) // the same each time, for golden files
	}
	return func(r validate.Receipt) (string, error) {
		s, err := proof.Of(r)
		if err != nil {
			return "", err
		}
		c, err := s.Sign(sign)
		return c.String(), err
	}, proof.Key{Terminal: terminal, Public: &key.PublicKey}
}

func paid() validate.Receipt {
	return validate.Receipt{Terminal: "T-0001", Number: validate.EntryNumber{Epoch: 1, Seq: 6}, Hash: strings.Repeat("6b86b273ff34fce1", 4), Copies: 1,
		At: time.Date(2026, 11, 30, 10, 6, 9, 0, time.UTC), Claim: validate.Claim{Amount: 2000, Currency: "EUR",
			Slip: validate.SlipFacts{Game: "Bingo", Emission: "1", BlockNumber: 1, GameCode: "00399", Pack: "0000123", Ticket: "017", SecretTail: "74"}}}
}

// longest is a claim whose code has every part as long as it may be.
func longest() validate.Receipt {
	r := paid()
	r.Terminal = "T" + strings.Repeat("-0042", 12) + "xy"
	r.Number = validate.EntryNumber{Epoch: 999_999_999, Seq: 999_999_999_999}
	r.Amount = 999_999_999_999
	r.Slip.GameCode, r.Slip.Pack, r.Slip.Ticket, r.Slip.Demonstration = "123456", "1234567890", "12345", true
	return r
}

func tabac(l money.Language) Stationery {
	return Stationery{Shop: Shop{Name: "Tabac de la Gare", Address: []string{"1 place de la Gare", "29000 Quimper"}}, Language: l, Zone: time.UTC}
}

// TestReceiptsAreThePaper holds whole slips against golden files: languages, widths,
// DUPLICATA and DEMONSTRATION, each with its code.
func TestReceiptsAreThePaper(t *testing.T) {
	duplicata, demonstration, verified := paid(), paid(), paid()
	duplicata.Copies = 2
	demonstration.Slip.Demonstration = true
	verified.Trusted, verified.Operator = verified.At, "marie"
	for name, c := range map[string]struct {
		receipt  validate.Receipt
		language money.Language
		columns  int
	}{
		"receipt-fr-32": {paid(), money.French, 32}, "receipt-fr-48": {verified, money.French, 48}, "receipt-en-42": {paid(), money.English, 42},
		"receipt-duplicata-fr-32": {duplicata, money.French, 32}, "receipt-demonstration-en-32": {demonstration, money.English, 32},
	} {
		st := tabac(c.language)
		st.Sign, _ = signer(t, "T-0001")
		slip, err := st.Receipt(c.receipt)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", []byte(slip.Text(c.columns)))
	}
}

// TestResultSlipsSayThatTheyAreNoPayment holds the slips of checks against golden files: for
// the payment centre with the prize, and for a loser without one.
func TestResultSlipsSayThatTheyAreNoPayment(t *testing.T) {
	code, err := ticket.Make(ticket.G40(), "512", 123, 17, "9876543210987654321098")
	if err != nil {
		t.Fatal(err)
	}
	prize, none := money.Amount(100000000), money.Amount(0)
	r := terminal.Result{At: paid().At, Terminal: "T-0001", Code: code, Game: "Bingo", Emission: "1"}
	for name, c := range map[string]struct {
		verdict  validate.Verdict
		language money.Language
		columns  int
	}{
		"result-centre-fr-32": {validate.Verdict{Outcome: validate.Refer, Reason: validate.AboveShopLimit, AmountMinor: &prize, Currency: "EUR"}, money.French, 32},
		"result-lost-en-48":   {validate.Verdict{Outcome: validate.Refuse, Reason: validate.NotAWinner, AmountMinor: &none, Currency: "EUR", Scaled: true}, money.English, 48},
	} {
		r.Verdict = c.verdict
		text := tabac(c.language).Result(r).Text(c.columns)
		if strings.Contains(text, "98765") {
			t.Errorf("%s shows the secret", name)
		}
		golden(t, name+".txt", []byte(text))
	}
}

// TestSlipsCodeIsReadOffThePictureAndProven draws slips as each model prints them and
// reads their code off the picture, as a player's telephone does.
func TestSlipsCodeIsReadOffThePictureAndProven(t *testing.T) {
	duplicata := paid()
	duplicata.Copies = 3
	for _, p := range papers(t) {
		for name, r := range map[string]validate.Receipt{"duplicata": duplicata, "longest": longest()} {
			if name == "longest" && p.Columns > 32 {
				continue // its code is the same and has more room
			}
			st := tabac(money.French)
			var key proof.Key
			st.Sign, key = signer(t, r.Terminal)
			var b bytes.Buffer
			if err := st.PNG(&b, r, p); err != nil {
				t.Fatalf("%s, %s: %v", p.Name, name, err)
			}
			if dir := os.Getenv("SLIP_PNG_DIR"); dir != "" {
				if err := os.WriteFile(filepath.Join(dir, name+"-"+p.Name+".png"), b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			picture, err := png.Decode(&b)
			if err != nil {
				t.Fatal(err)
			}
			proven(t, readQR(t, picture), r, key)
		}
	}
}

// proven holds the code read off a slip against the receipt it is of.
func proven(t *testing.T, text string, r validate.Receipt, key proof.Key) {
	t.Helper()
	c, err := proof.Parse(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if err := c.Verify(key); err != nil {
		t.Errorf("%q: %v", text, err)
	}
	if want, err := proof.Of(r); err != nil || c.Statement != want {
		t.Errorf("the code says %+v, the receipt %+v, %v", c.Statement, want, err)
	}
}

// TestSlipsCodeHasModulesOfHalfAMillimetre, with its quiet zone inside the paper, on
// every model and up to the longest code. The usual one takes a line of 9600 baud under
// two seconds.
func TestSlipsCodeHasModulesOfHalfAMillimetre(t *testing.T) {
	for _, p := range Profiles() {
		for name, r := range map[string]validate.Receipt{"usual": paid(), "longest": longest()} {
			sign, _ := signer(t, r.Terminal)
			text, err := sign(r)
			if err != nil {
				t.Fatal(err)
			}
			if name == "longest" && len(text) < proof.MaxCode-10 {
				t.Fatalf("the longest code has %d of %d bytes: it is not the longest", len(text), proof.MaxCode)
			}
			c, err := drawCode(qrBlock, text, p.area())
			if err != nil {
				t.Fatalf("%s, %s: %v", p.Name, name, err)
			}
			side := 2 * c.bits.width
			if c.module < 4 || side+2*quietModules*c.module > p.area() {
				t.Errorf("%s, %s: %d modules of %d dots on %d", p.Name, name, side/c.module, c.module, p.area())
			}
			if took := transfer(len(c.bits.bits), 9600); name == "usual" && took > 2*time.Second {
				t.Errorf("%s: %d bytes of picture take %v", p.Name, len(c.bits.bits), took)
			}
			t.Logf("%s, %s: %d bytes, %d modules of %d dots, %d mm", p.Name, name, len(text), side/c.module, c.module, side/8)
		}
	}
}

func TestSlipWithoutAKeyIsWhole(t *testing.T) {
	st := tabac(money.French)
	bare, err := st.Receipt(paid())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the key is unreadable")
	st.Sign = func(validate.Receipt) (string, error) { return "", broken }
	unsigned, err := st.Receipt(paid())
	if !errors.Is(err, broken) {
		t.Errorf("the failure is told as %v", err)
	}
	if unsigned.Text(32) != bare.Text(32) || strings.Contains(bare.Text(32), "contrôle") {
		t.Errorf("unsigned:\n%s\nwith no key:\n%s", unsigned.Text(32), bare.Text(32))
	}
	var b bytes.Buffer
	if err := st.PNG(&b, paid(), Profiles()[0]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := image.DecodeConfig(&b); err != nil {
		t.Error(err)
	}
}
