package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	// ErrNone means that no signed policy was accepted, or that the first one has not begun:
	// what the configuration says holds.
	ErrNone = errors.New("no signed policy has begun")
	// ErrGap means that the signed policies which have begun are over: nothing is paid
	// until a newer one comes.
	ErrGap = errors.New("the signed policies are over")
	// ErrVersion means two policies of one version that say different things.
	ErrVersion = errors.New("another policy of this version is here already")
)

// Set is the signed policies that a terminal has accepted. The zero Set has none. It is
// not safe for concurrent use.
type Set struct {
	list []Policy // oldest version first
	held answer   // stays while the time is not known
}

// answer is what InForce said.
type answer struct {
	policy Policy
	err    error
}

// Accept adds a policy whose signatures the caller has verified. The same policy again
// changes nothing. The errors are those of ValidateSigned, and ErrVersion.
func (s *Set) Accept(p Policy) error {
	if err := p.ValidateSigned(); err != nil {
		return err
	}
	for _, q := range s.list {
		if q == p {
			return nil
		}
		if q.Version == p.Version {
			return fmt.Errorf("policy %s: %w: give the new one a version of its own", p.Version, ErrVersion)
		}
	}
	at := slices.IndexFunc(s.list, func(q Policy) bool { return Newer(q.Version, p.Version) })
	if at < 0 {
		at, s.held = len(s.list), answer{p, nil}
	}
	s.list = slices.Insert(s.list, at, p)
	return nil
}

// Withdraw takes an accepted policy back: it never holds again. Where it was what holds with
// no trusted time, the newest version left takes its place. A version that is not here
// changes nothing.
func (s *Set) Withdraw(version string) {
	s.list = slices.DeleteFunc(s.list, func(p Policy) bool { return p.Version == version })
	switch {
	case s.held.err != nil || s.held.policy.Version != version:
	case len(s.list) == 0:
		s.held = answer{err: ErrNone}
	default:
		s.held = answer{policy: s.list[len(s.list)-1]}
	}
}

// List gives the policies, oldest version first.
func (s *Set) List() []Policy { return slices.Clone(s.list) }

// InForce is the policy that holds at a trusted time: the newest version whose days hold
// it. With no trusted time, the zero time, the answer is the last one that was given for a
// trusted time, or the newest version if it was accepted after it: a clock that nobody vouches for
// must not switch limits. The errors are ErrNone and ErrGap, with the zero Policy.
func (s *Set) InForce(trusted time.Time) (Policy, error) {
	if trusted.IsZero() {
		if len(s.list) == 0 {
			return Policy{}, ErrNone
		}
		return s.held.policy, s.held.err
	}
	s.held = s.onDay(DayInParis(trusted))
	return s.held.policy, s.held.err
}

func (s *Set) onDay(d Date) answer {
	none := answer{err: ErrNone}
	for _, p := range slices.Backward(s.list) {
		if p.holdsOn(d) {
			return answer{policy: p}
		}
		if !d.Before(p.ValidFrom) {
			none.err = ErrGap
		}
	}
	return none
}

// What a mark says of an answer that is no policy; no version begins like this.
const (
	markNone = "-none"
	markGap  = "-gap"
)

// Mark is a line that tells a Set of the next start what this one would answer with no
// trusted time. It is empty for a set of no policies.
func (s *Set) Mark() string {
	if len(s.list) == 0 {
		return ""
	}
	held := s.held.policy.Version
	switch s.held.err {
	case ErrNone:
		held = markNone
	case ErrGap:
		held = markGap
	}
	return held + " " + s.list[len(s.list)-1].Version
}

// Resume takes a mark up, once the policies are accepted. One that is of other policies,
// because a newer one came since or the one in force has gone, is as good as none.
func (s *Set) Resume(mark string) {
	held, newest, _ := strings.Cut(mark, " ")
	if len(s.list) == 0 || s.list[len(s.list)-1].Version != newest {
		return
	}
	switch held {
	case markNone:
		s.held = answer{err: ErrNone}
	case markGap:
		s.held = answer{err: ErrGap}
	}
	for _, p := range s.list {
		if p.Version == held {
			s.held = answer{policy: p}
		}
	}
}

func (p Policy) holdsOn(d Date) bool {
	return !d.Before(p.ValidFrom) && (p.ValidTo.IsZero() || !p.ValidTo.Before(d))
}

// FindingKind is what is odd about the days of a set.
type FindingKind string

const (
	Gap     FindingKind = "gap"     // days on which none holds, after the first one began
	Overlap FindingKind = "overlap" // days on which two hold: the newer version counts
)

// Finding is one oddity of a set's days. An overlap may be meant, a gap hardly ever is.
type Finding struct {
	Kind         FindingKind
	From, To     Date // both included; To is zero for no end
	Older, Newer string
}

// String is the finding for people.
func (f Finding) String() string {
	days := fmt.Sprintf("from %v to %v", f.From, f.To)
	if f.To.IsZero() {
		days = fmt.Sprintf("from %v on", f.From)
	}
	if f.Kind == Gap {
		return "gap: no policy holds " + days
	}
	return fmt.Sprintf("overlap: %s and %s both hold %s, %s counts", f.Older, f.Newer, days, f.Newer)
}

// Findings names the gaps and overlaps of the set's days: the gaps, in their order, then
// the overlaps of each two policies.
func (s *Set) Findings() []Finding {
	var out []Finding
	byDay := slices.SortedFunc(slices.Values(s.list), func(a, b Policy) int { return a.ValidFrom.compare(b.ValidFrom) })
	var covered Date // last day that is held so far, endless once it is zero
	for i, p := range byDay {
		if i > 0 && covered.IsZero() {
			break
		}
		if i > 0 && covered.Add(1).Before(p.ValidFrom) {
			out = append(out, Finding{Kind: Gap, From: covered.Add(1), To: p.ValidFrom.Add(-1)})
		}
		if p.ValidTo.IsZero() || i == 0 || covered.Before(p.ValidTo) {
			covered = p.ValidTo
		}
	}
	if !covered.IsZero() {
		out = append(out, Finding{Kind: Gap, From: covered.Add(1)})
	}
	for i, older := range s.list {
		for _, newer := range s.list[i+1:] {
			if f := overlap(older, newer); f.Kind != "" {
				out = append(out, f)
			}
		}
	}
	return out
}

// overlap is the finding of the days on which both hold, the zero Finding for none.
func overlap(older, newer Policy) Finding {
	f := Finding{Kind: Overlap, From: older.ValidFrom, To: older.ValidTo, Older: older.Version, Newer: newer.Version}
	if f.From.Before(newer.ValidFrom) {
		f.From = newer.ValidFrom
	}
	if f.To.IsZero() || !newer.ValidTo.IsZero() && newer.ValidTo.Before(f.To) {
		f.To = newer.ValidTo
	}
	if !f.To.IsZero() && f.To.Before(f.From) {
		return Finding{}
	}
	return f
}

func (d Date) compare(e Date) int {
	return cmp.Or(cmp.Compare(d.Year, e.Year), cmp.Compare(d.Month, e.Month), cmp.Compare(d.Day, e.Day))
}

// Newer tells whether version a is newer than b. Runs of digits count as numbers, all
// else as text: 2026-10 is newer than 2026-9, and v10 than v9.
func Newer(a, b string) bool {
	x, y := a, b
	for x != "" && y != "" {
		var p, q string
		p, x = run(x)
		q, y = run(y)
		if c := compareRuns(p, q); c != 0 {
			return c > 0
		}
	}
	if x != y { // one is the beginning of the other
		return x != ""
	}
	return a > b // 01 and 1 are two versions all the same
}

// run splits off the digits at the beginning, or what comes before the next ones.
func run(s string) (head, rest string) {
	end := strings.IndexFunc(s, func(r rune) bool { return isDigit(r) != isDigit(rune(s[0])) })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func compareRuns(a, b string) int {
	if isDigit(rune(a[0])) && isDigit(rune(b[0])) {
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}
