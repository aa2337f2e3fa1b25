package people

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

var (
	// ErrPIN means text that is no PIN: it has not 4 to 8 digits.
	ErrPIN = errors.New("a PIN has 4 to 8 digits")
	// ErrWeakPIN means a PIN that others would try first.
	ErrWeakPIN = errors.New("this PIN is too easy to guess: take one with no pattern")
)

const (
	minPIN = 4
	maxPIN = 8
)

// PIN is what an operator types. However it is printed, it shows nothing of itself.
type PIN struct{ digits string }

// Format writes "PIN(hidden)" for every verb.
func (PIN) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte("PIN(hidden)")) }

// Digits are the PIN in clear, for handing it to the daemon's socket and nothing else.
func (p PIN) Digits() string { return p.digits }

// ParsePIN reads a PIN as a keypad, a terminal or a file gives it: 4 to 8 ASCII digits,
// with blanks and line ends around them. The error is ErrPIN and shows nothing of the text.
func ParsePIN(text string) (PIN, error) {
	digits := strings.Trim(text, " \t\r\n")
	if len(digits) < minPIN || len(digits) > maxPIN || strings.Trim(digits, "0123456789") != "" {
		return PIN{}, ErrPIN
	}
	return PIN{digits}, nil
}

// weak tells whether a PIN is one that people try first: all steps from digit to digit
// are equal (0000, 1234, 9876, 1357, and over the end of the keypad, 7890), a part is
// repeated (1212, 123123), or it is the operator's own number.
func (p PIN) weak(operator string) bool {
	d := p.digits
	if strings.TrimLeft(d, "0") == strings.TrimLeft(operator, "0") {
		return true
	}
	even := true
	for i := 2; i < len(d); i++ {
		even = even && (d[i]-d[i-1]+10)%10 == (d[1]-d[0]+10)%10
	}
	for part := 1; part <= len(d)/2; part++ {
		if len(d)%part == 0 && strings.Repeat(d[:part], len(d)/part) == d {
			return true
		}
	}
	return even
}

// cost is what one look at a PIN costs whoever looks. It is stored with each hash, so
// that it can rise: a hash of another cost is made again when its PIN is next typed.
type cost struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
}

// shippedCost is the second of the equivalent settings that OWASP's password storage
// cheat sheet names for Argon2id (19 MiB, 2 passes, 1 lane). The usual 64 MiB would be
// an eighth of a 512 MB board's memory, beside a browser that shows the pages; and no
// cost saves a PIN of so few digits from a thief of the file (see SECURITY.md), so the
// lock-out, not the hash, is what guards it at the counter.
var shippedCost = cost{memory: 19 << 10, passes: 2, threads: 1}

// What a stored hash may ask for: a damaged file must not exhaust the memory.
const (
	maxMemory  = 256 << 10 // KiB
	maxPasses  = 16
	maxThreads = 4
	saltBytes  = 16
	keyBytes   = 32
)

// hash gives the PIN's hash in the usual text form, $argon2id$v=19$m=,t=,p=$salt$key.
func (c cost) hash(p PIN) string {
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails: the program would have ended
	return c.text(salt, c.key(p, salt))
}

func (c cost) key(p PIN, salt []byte) []byte {
	return argon2.IDKey([]byte(p.digits), salt, c.passes, c.memory, c.threads, keyBytes)
}

func (c cost) text(salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.passes, c.threads,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

// nobody is a hash that no PIN has: what is held against the PIN of an operator who does
// not exist, so that the answer takes as long.
func (c cost) nobody() string {
	random := make([]byte, saltBytes+keyBytes)
	_, _ = rand.Read(random)
	return c.text(random[:saltBytes], random[saltBytes:])
}

// matches holds a PIN against a stored hash, in the time the hash's cost takes whatever
// the answer, and tells the cost. An error is a damaged file.
func (p PIN) matches(stored string) (bool, cost, error) {
	c, salt, key, err := parseHash(stored)
	if err != nil {
		return false, c, err
	}
	return subtle.ConstantTimeCompare(c.key(p, salt), key) == 1, c, nil
}

// parseHash accepts only what text writes, and no cost that would exhaust the machine.
func parseHash(stored string) (c cost, salt, key []byte, err error) {
	var version int
	head, key64, _ := cutLast(stored, "$")
	head, salt64, _ := cutLast(head, "$")
	_, err = fmt.Sscanf(head, "$argon2id$v=%d$m=%d,t=%d,p=%d", &version, &c.memory, &c.passes, &c.threads)
	salt, err1 := base64.RawStdEncoding.DecodeString(salt64)
	key, err2 := base64.RawStdEncoding.DecodeString(key64)
	if errors.Join(err, err1, err2) != nil || len(salt) != saltBytes || len(key) != keyBytes || c.text(salt, key) != stored ||
		c.passes < 1 || c.passes > maxPasses || c.threads < 1 || c.threads > maxThreads || c.memory < 8*uint32(c.threads) || c.memory > maxMemory {
		return c, nil, nil, fmt.Errorf("%w: a PIN's hash is none", ErrDamaged)
	}
	return c, salt, key, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// fit tells whether an operator may have this PIN. The errors are ErrPIN and ErrWeakPIN.
func (p PIN) fit(operator string) error {
	if len(p.digits) < minPIN || len(p.digits) > maxPIN {
		return ErrPIN
	}
	if p.weak(operator) {
		return ErrWeakPIN
	}
	return nil
}
