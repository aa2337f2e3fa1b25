// Package proof is the short signed code on a slip, by which anybody who has the
// terminal's published key can tell, with no network, that this terminal recorded this
// claim under this number. It does not say that the paper is the only copy, nor that
// the claim still stands. It holds no secret: a code shows less of the ticket than the
// slip does in clear. Start at Of and Parse.
//
// A code is one line of ASCII, parts parted by dots; a terminal's name may hold dots, no
// other part can:
//
//	G1.T-0001.1-000006.2000EUR.00399-0000123-017.6b86b273ff34fce1.SIGNATURE
//	   terminal  number  amount   game-pack-ticket  hash
//
// G1 is the format, G1D that of a demonstration, worth nothing. The amount is in minor
// units, the hash the first 16 digits of the ledger entry's. The signature is ECDSA over
// P-256 and SHA-256 of Statement.Text, r and s of 32 bytes each with the lower of the two
// possible s, in base64url without padding.
package proof

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"grattoir/validate"
	"grattoir/validate/money"
)

// MaxCode bounds a code, in bytes. A QR code of it fits the narrowest paper.
const MaxCode = 240

// hashDigits of the entry's hash are in the code. Whoever changes an entry under a slip
// without the terminal's key would have to find another with the same 64 bits.
const hashDigits = 16

// Statement is what a terminal says of a claim on a slip. It comes from Of or Parse.
type Statement struct {
	Terminal      string
	Number        validate.EntryNumber
	Hash          string // the first 16 hexadecimal digits of the entry's hash
	Amount        money.Amount
	Currency      string
	GameCode      string // as the slip shows it, like Pack and Ticket
	Pack          string
	Ticket        string
	Demonstration bool // of a block that is worth nothing
}

var (
	// ErrStatement means a claim that no code can be made of.
	ErrStatement = errors.New("no control code can be made of this claim")
	// ErrCode means a text that is no code: something in it was misread or changed.
	ErrCode = errors.New("not a control code of a slip")
	// ErrSignature means that the key's terminal did not sign this: the code was
	// changed or forged, or the terminal had another key when it printed the slip.
	ErrSignature = errors.New("the signature is not that of the terminal's key")
	// ErrOtherTerminal means that the key is of another terminal than the code names.
	ErrOtherTerminal = errors.New("the key is of another terminal")
)

// Of is the statement of a recorded claim. The error is ErrStatement: a terminal whose
// name is not one that central would give, or a receipt that is not whole.
func Of(r validate.Receipt) (Statement, error) {
	s := Statement{Terminal: r.Terminal, Number: r.Number, Amount: r.Amount, Currency: r.Currency, GameCode: r.Slip.GameCode,
		Pack: r.Slip.Pack, Ticket: r.Slip.Ticket, Demonstration: r.Slip.Demonstration}
	if !hashForm.MatchString(r.Hash) {
		return s, fmt.Errorf("%w: entry %v has no hash", ErrStatement, r.Number)
	}
	s.Hash = r.Hash[:hashDigits]
	if again, err := parseStatement(s.line()); err != nil || again != s {
		return s, fmt.Errorf("%w: entry %v of terminal %.64q", ErrStatement, r.Number, r.Terminal)
	}
	return s, nil
}

// hashForm is the whole hash of an entry.
var hashForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Text is the canonical text that the terminal signs. Its first line keeps it apart from
// the heads that the same key signs.
func (s Statement) Text() string {
	kind := "payment"
	if s.Demonstration {
		kind = "DEMONSTRATION"
	}
	return fmt.Sprintf("grattoir slip v1\nkind %s\nterminal %s\nepoch %d\nseq %d\nhash %s\namount %d %s\ngame %s\npack %s\nticket %s\n",
		kind, s.Terminal, s.Number.Epoch, s.Number.Seq, s.Hash, s.Amount, s.Currency, s.GameCode, s.Pack, s.Ticket)
}

// line is the code without its signature.
func (s Statement) line() string {
	format := "G1"
	if s.Demonstration {
		format = "G1D"
	}
	return fmt.Sprintf("%s.%s.%v.%d%s.%s-%s-%s.%s", format, s.Terminal, s.Number, s.Amount, s.Currency, s.GameCode, s.Pack, s.Ticket, s.Hash)
}

// terminalName is how central names terminals.
const terminalName = `[A-Za-z0-9][A-Za-z0-9._-]{0,62}`

var nameForm = regexp.MustCompile(`^` + terminalName + `$`)

// lineForm has the limits of every part.
var lineForm = regexp.MustCompile(`^(G1|G1D)\.(` + terminalName + `)\.([0-9]{1,9})-([0-9]{6,12})\.([0-9]{1,12})([A-Z]{3})` +
	`\.([0-9]{1,6})-([0-9]{1,10})-([0-9]{1,5})\.([0-9a-f]{16})$`)

// parseStatement reads what line writes, and numbers with more zeros before them: the
// callers hold what it read against what they have.
func parseStatement(text string) (Statement, error) {
	m := lineForm.FindStringSubmatch(text)
	if m == nil {
		return Statement{}, ErrCode
	}
	epoch, err1 := strconv.ParseInt(m[3], 10, 64)
	seq, err2 := strconv.ParseInt(m[4], 10, 64)
	amount, err3 := strconv.ParseInt(m[5], 10, 64)
	s := Statement{Terminal: m[2], Number: validate.EntryNumber{Epoch: epoch, Seq: seq}, Amount: money.Amount(amount), Currency: m[6],
		GameCode: m[7], Pack: m[8], Ticket: m[9], Hash: m[10], Demonstration: m[1] == "G1D"}
	if err := errors.Join(err1, err2, err3); err != nil || epoch < 1 || seq < 1 || amount < 1 {
		return Statement{}, ErrCode
	}
	return s, nil
}

// Code is a signed statement.
type Code struct {
	Statement
	signature [64]byte // r and s, big-endian
}

// Sign has the statement signed with the terminal's key, by a function that returns an
// ECDSA signature over P-256 and SHA-256 of a text, in ASN.1.
func (s Statement) Sign(sign func(text []byte) (signature []byte, err error)) (Code, error) {
	raw, err := sign([]byte(s.Text()))
	if err != nil {
		return Code{}, fmt.Errorf("control code of entry %v: %w", s.Number, err)
	}
	var pair struct{ R, S *big.Int }
	order := elliptic.P256().Params().N
	if rest, err := asn1.Unmarshal(raw, &pair); err != nil || len(rest) > 0 || !scalar(pair.R, order) || !scalar(pair.S, order) {
		return Code{}, fmt.Errorf("control code of entry %v: the key's signature of %d bytes is not ECDSA over P-256 in ASN.1", s.Number, len(raw))
	}
	if high(pair.S, order) { // s and -s are both valid: a statement must not have two codes
		pair.S.Sub(order, pair.S)
	}
	c := Code{Statement: s}
	pair.R.FillBytes(c.signature[:32])
	pair.S.FillBytes(c.signature[32:])
	return c, nil
}

func scalar(x, order *big.Int) bool { return x.Sign() > 0 && x.Cmp(order) < 0 }

// high tells whether s is the higher one of s and -s.
func high(s, order *big.Int) bool { return new(big.Int).Lsh(s, 1).Cmp(order) > 0 }

// signatureText is base64url whose unused last bits are zero.
var signatureText = base64.RawURLEncoding.Strict()

// String is the code as a slip carries it.
func (c Code) String() string {
	return c.line() + "." + signatureText.EncodeToString(c.signature[:])
}

// Parse reads what String writes, and nothing else: no blank, no other spelling of a
// number or of the signature. The error is ErrCode. What it reads is not proven: see Verify.
func Parse(text string) (Code, error) {
	dot := strings.LastIndexByte(text, '.')
	if dot < 0 || len(text) > MaxCode {
		return Code{}, fmt.Errorf("%w: %d characters", ErrCode, len(text))
	}
	s, err := parseStatement(text[:dot])
	if err != nil {
		return Code{}, err
	}
	c := Code{Statement: s}
	raw, err := signatureText.DecodeString(text[dot+1:])
	if err != nil || len(raw) != len(c.signature) {
		return Code{}, fmt.Errorf("%w: the signature at its end is not whole", ErrCode)
	}
	copy(c.signature[:], raw)
	if c.String() != text { // another spelling of a number; and the decoder steps over line feeds
		return Code{}, ErrCode
	}
	return c, nil
}

// Verify is nil when the key is that of the terminal which the code names, and signed
// it. The errors are ErrOtherTerminal and ErrSignature.
func (c Code) Verify(k Key) error {
	if k.Terminal != c.Terminal {
		return fmt.Errorf("%w: the code is of %s, the key of %.64s", ErrOtherTerminal, c.Terminal, k.Terminal)
	}
	r, s := new(big.Int).SetBytes(c.signature[:32]), new(big.Int).SetBytes(c.signature[32:])
	digest := sha256.Sum256([]byte(c.Text()))
	if k.Public == nil || high(s, elliptic.P256().Params().N) || !ecdsa.Verify(k.Public, digest[:], r, s) {
		return ErrSignature
	}
	return nil
}
