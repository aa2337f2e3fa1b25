package sim

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what an act may say.
const (
	maxNumber = 1_000_000
	maxTime   = 24 * time.Hour
	maxCode   = MaxScan
)

// MaxScan is the longest code or raw bytes that one act scans.
const MaxScan = 1024

// Act is one thing that a script has done to the devices. The zero Act is none; make one
// with ParseAct. An Act is a value, and its text reads back as the same Act.
type Act struct {
	form  *form
	args  []arg
	after span // 0 for at once
}

// span is a number, or a range from which one is drawn when the act's turn comes.
type span struct{ lo, hi int64 }

// arg is a word of an act that is not fixed: text, or a span.
type arg struct {
	text string
	span span
}

// form is one kind of act: its words, what it means, and how it is done.
type form struct {
	pattern string // capital words are arguments
	means   string
	do      func(ctx context.Context, d *Devices, a Act) error
	words   []string // of the pattern
}

// inWords fills in the words of the patterns.
func inWords(list []form) []form {
	for i := range list {
		list[i].words = strings.Fields(list[i].pattern)
	}
	return list
}

func (a Act) number(i int) int          { return int(a.args[i].span.lo) }
func (a Act) time(i int) time.Duration  { return time.Duration(a.args[i].span.lo) }
func (a Act) text(i int) string         { return a.args[i].text }
func (s span) fixed() bool              { return s.lo == s.hi }
func (s span) draw(rng *rand.Rand) span { n := s.lo + rng.Int64N(s.hi-s.lo+1); return span{n, n} }
func (s span) show(f func(int64) string) string {
	if s.fixed() {
		return f(s.lo)
	}
	return f(s.lo) + ".." + f(s.hi)
}

func showNumber(n int64) string { return strconv.FormatInt(n, 10) }
func showTime(n int64) string   { return time.Duration(n).String() }

// String is the act as a script says it.
func (a Act) String() string {
	if a.form == nil {
		return ""
	}
	words := slices.Clone(a.form.words)
	next := 0
	for i, w := range words {
		if !isArgument(w) {
			continue
		}
		switch v := a.args[next]; w {
		case "N":
			words[i] = v.span.show(showNumber)
		case "TIME":
			words[i] = v.span.show(showTime)
		default:
			words[i] = v.text
		}
		next++
	}
	if a.after != (span{}) {
		words = append(words, "after", a.after.show(showTime))
	}
	return strings.Join(words, " ")
}

// resolve draws a number for every range, and parts the delay from the act.
func (a Act) resolve(rng *rand.Rand) (Act, time.Duration) {
	a.args = slices.Clone(a.args)
	for i, v := range a.args {
		a.args[i].span = v.span.draw(rng)
	}
	delay := time.Duration(a.after.draw(rng).lo)
	a.after = span{}
	return a, delay
}

func isArgument(word string) bool {
	return word == strings.ToUpper(word) && word != strings.ToLower(word)
}

// ParseAct reads one act. "scanner" or "printer" may be left out where the rest can mean
// one of them only.
func ParseAct(line string) (Act, error) {
	words, err := split(line)
	if err != nil {
		return Act{}, err
	}
	return parseAct(words)
}

func parseAct(words []string) (Act, error) {
	after := span{}
	rest := words
	if n := len(words); n > 2 && words[n-2] == "after" {
		if d, err := parseTime(words[n-1]); err == nil {
			after, rest = d, words[:n-2]
			if d.lo == 0 {
				return Act{}, errors.New("after 0s: leave it out, or wait a while")
			}
		}
	}
	if len(rest) == 0 {
		return Act{}, errors.New("an act is missing")
	}
	a, err := matchAct(rest)
	a.after = after
	return a, err
}

// matchAct finds the form of the words, also where the device is left out.
func matchAct(words []string) (Act, error) {
	var found []Act
	var fault error
	for _, device := range [][]string{nil, {"scanner"}, {"printer"}} {
		full := slices.Concat(device, words)
		for i := range forms {
			args, ok, err := forms[i].match(full)
			switch {
			case err != nil && fault == nil:
				fault = err
			case ok && err == nil:
				found = append(found, Act{form: &forms[i], args: args})
			}
		}
		if device == nil && len(found) > 0 {
			break
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Act{}, fmt.Errorf("%q is an act of both devices: begin with scanner or printer", strings.Join(words, " "))
	case fault != nil:
		return Act{}, fault
	}
	return Act{}, fmt.Errorf("%.60q is no act%s", strings.Join(words, " "), hint(words))
}

// match compares words with the form. ok says that all fixed words fit; then err says
// what is wrong with an argument.
func (f *form) match(words []string) (args []arg, ok bool, err error) {
	pattern := f.words
	if len(pattern) != len(words) {
		return nil, false, nil
	}
	for i, p := range pattern {
		if !isArgument(p) && p != words[i] {
			return nil, false, nil
		}
	}
	for i, p := range pattern {
		if !isArgument(p) {
			continue
		}
		v, err := parseArg(p, words[i])
		if err != nil {
			return nil, true, fmt.Errorf("%s: %w", f.pattern, err)
		}
		args = append(args, v)
	}
	return args, true, nil
}

// hint lists the forms that begin as the words do.
func hint(words []string) string {
	for n := min(2, len(words)); n > 0; n-- {
		var near []string
		for _, f := range forms {
			if head := words[:n]; startsWith(f.words, head) || startsWith(f.words[1:], head) {
				near = append(near, f.pattern)
			}
		}
		if len(near) > 0 {
			return "; want one of: " + strings.Join(near, "; ")
		}
	}
	return "; it begins with scan, scanner, printer, daemon or wait"
}

func startsWith(words, head []string) bool {
	return len(words) >= len(head) && slices.Equal(words[:len(head)], head)
}

func parseArg(kind, word string) (arg, error) {
	switch kind {
	case "N":
		s, err := parseNumber(word)
		return arg{span: s}, err
	case "TIME":
		s, err := parseTime(word)
		return arg{span: s}, err
	case "HEX":
		b, err := hex.DecodeString(word)
		if err != nil || len(b) > MaxScan {
			return arg{}, fmt.Errorf("%.20q: want at most %d bytes in hexadecimal, as 1B40", word, MaxScan)
		}
		return arg{text: strings.ToUpper(word)}, nil
	case "CODE":
		if len(word) > maxCode {
			return arg{}, fmt.Errorf("a code of %d bytes: want at most %d", len(word), maxCode)
		}
		return arg{text: word}, nil
	case "STEP":
		for _, c := range word {
			if c != '-' && c != ':' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
				return arg{}, fmt.Errorf("%.20q is no step: want small letters, as recorded or sent:2", word)
			}
		}
		return arg{text: word}, nil
	}
	return arg{}, fmt.Errorf("argument %s has no reader", kind)
}

// parseNumber reads N or N..M.
func parseNumber(word string) (span, error) {
	return parseSpan(word, "a number, or a range as 3..40", func(s string) (int64, error) {
		for _, c := range s {
			if c < '0' || c > '9' {
				return 0, strconv.ErrSyntax // no signs
			}
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil && n > maxNumber {
			return 0, fmt.Errorf("more than %d", maxNumber)
		}
		return n, err
	})
}

// parseTime reads a duration with its unit, or a range of two.
func parseTime(word string) (span, error) {
	return parseSpan(word, "a time with its unit as 2s or 150ms, or a range as 1s..3s", func(s string) (int64, error) {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return 0, err
		case d < 0 || s[0] == '+':
			return 0, strconv.ErrSyntax
		case d > maxTime:
			return 0, fmt.Errorf("more than %v", maxTime)
		}
		return int64(d), nil
	})
}

func parseSpan(word, want string, one func(string) (int64, error)) (span, error) {
	lo, hi, ranged := strings.Cut(word, "..")
	if !ranged {
		hi = lo
	}
	a, err1 := one(lo)
	b, err2 := one(hi)
	if err := errors.Join(err1, err2); err != nil || a > b {
		return span{}, fmt.Errorf("%.30q: want %s", word, want)
	}
	return span{a, b}, nil
}
