package people

import (
	"errors"
	"fmt"
	"strings"
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

// hash gives the PIN's hash, with its cost and a salt of its own.
func (c Cost) hash(p PIN) string { return c.Hash(p.digits) }

// matches is Matches for a PIN.
func (p PIN) matches(stored string) (bool, Cost, error) { return Matches(p.digits, stored) }

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
