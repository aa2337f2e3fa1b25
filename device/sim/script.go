package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a script.
const (
	maxScript = 256 << 10 // bytes
	maxLine   = 2 * MaxScan
	maxFaults = 256
	maxRepeat = 1_000_000 // tickets of one statement
)

// Script says what happens to a scanner and a printer, and when. Its language is in
// SCRIPT.md. It is made by ParseScript, never changes but for Seed, and may be played
// any number of times.
type Script struct {
	// Seed is of everything that is drawn: faults, and numbers within ranges. Two plays
	// with the same seed do the same acts in the same order.
	Seed uint64

	name   string
	steps  []step
	faults []fault
}

// step is one line outside of a fault.
type step struct {
	line int
	kind stepKind
	n    int  // of tickets and every
	time span // of wait and at
	act  Act  // of act, at and every; none where every draws
}

type stepKind string

const (
	stepAct     stepKind = "act"
	stepWait    stepKind = "wait"
	stepAt      stepKind = "at"
	stepEvery   stepKind = "every"
	stepDraw    stepKind = "draw"
	stepTickets stepKind = "tickets"
)

// fault is a named list of acts, from which "draw" takes.
type fault struct {
	line int
	name string
	acts []job
}

// ScriptError says which line of a script is wrong, or went wrong.
type ScriptError struct {
	Name string // of the script
	Line int
	Err  error
}

// Error is the place and the cause.
func (e *ScriptError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Name, e.Line, e.Err) }

// Unwrap gives the cause.
func (e *ScriptError) Unwrap() error { return e.Err }

// Name is what the script was called when it was parsed.
func (s *Script) Name() string { return s.name }

// Faults are the names of the faults that may be drawn, in their order.
func (s *Script) Faults() []string {
	names := make([]string, 0, len(s.faults))
	for _, f := range s.faults {
		names = append(names, f.name)
	}
	return names
}

// Tickets is how many tickets the script serves in all.
func (s *Script) Tickets() int {
	n := 0
	for _, st := range s.steps {
		if st.kind == stepTickets {
			n += st.n
		}
	}
	return n
}

// Waits says that a play takes time, whatever the devices do.
func (s *Script) Waits() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool {
		return st.kind != stepAct || st.act.after != (span{}) || st.act.form.words[0] == "wait"
	})
}

// ParseScript reads a script of at most 256 KiB. Name stands for it in errors, which are
// *ScriptError for everything but a reader that fails.
func ParseScript(name string, r io.Reader) (*Script, error) {
	p := &scriptParser{script: &Script{name: name}}
	in := bufio.NewScanner(io.LimitReader(r, maxScript+1))
	in.Buffer(nil, maxLine)
	read := 0
	for in.Scan() {
		p.line++
		if read += len(in.Bytes()) + 1; read > maxScript {
			return nil, &ScriptError{name, p.line, fmt.Errorf("more than %d bytes of script", maxScript)}
		}
		words, err := split(in.Text())
		if err == nil && len(words) > 0 {
			err = p.statement(words)
		}
		if err != nil {
			return nil, &ScriptError{name, p.line, err}
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, &ScriptError{name, p.line + 1, fmt.Errorf("a line of more than %d bytes", maxLine)}
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p.finish()
}

// split gives a line's words, without its comment.
func split(line string) ([]string, error) {
	if !utf8.ValidString(line) {
		return nil, errors.New("the line is no UTF-8 text")
	}
	if i := strings.IndexFunc(line, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }); i >= 0 {
		return nil, fmt.Errorf("control character %q at byte %d: scan it as raw bytes", line[i], i+1)
	}
	words := strings.Fields(line)
	for i, w := range words {
		if strings.HasPrefix(w, "#") {
			return words[:i], nil
		}
	}
	return words, nil
}

type scriptParser struct {
	script *Script
	line   int
	fault  *fault // being defined
	draws  int    // line of the first draw
	seeded bool
}

func (p *scriptParser) statement(words []string) error {
	if p.fault != nil {
		return p.inFault(words)
	}
	add := func(st step) error {
		st.line = p.line
		p.script.steps = append(p.script.steps, st)
		return nil
	}
	switch n := len(words); {
	case words[0] == "seed":
		return p.seed(words)
	case words[0] == "fault":
		return p.begin(words)
	case words[0] == "draw" && n == 1:
		p.drawn()
		return add(step{kind: stepDraw})
	case words[0] == "tickets":
		count, err := p.count(words, maxRepeat)
		if err != nil {
			return err
		}
		return add(step{kind: stepTickets, n: count})
	case words[0] == "wait" && n == 2 && words[1] != "slip" && words[1] != "open":
		d, err := parseTime(words[1])
		if err != nil {
			return fmt.Errorf("wait: %w, or slip, or open", err)
		}
		return add(step{kind: stepWait, time: d})
	case words[0] == "at":
		return p.at(words, add)
	case words[0] == "every":
		return p.every(words, add)
	}
	a, err := parseAct(words)
	if err != nil {
		return err
	}
	return add(step{kind: stepAct, act: a})
}

// count reads the one number of a statement.
func (p *scriptParser) count(words []string, most int64) (int, error) {
	if len(words) != 2 {
		return 0, fmt.Errorf("%s: want one number", words[0])
	}
	n, err := parseNumber(words[1])
	if err != nil || !n.fixed() || n.lo < 1 || n.lo > most {
		return 0, fmt.Errorf("%s %.20q: want a number from 1 to %d", words[0], words[1], most)
	}
	return int(n.lo), nil
}

func (p *scriptParser) seed(words []string) error {
	if len(words) != 2 || p.seeded || len(p.script.steps) > 0 {
		return errors.New("seed: want one number, once, before everything that happens")
	}
	seed, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil || strconv.FormatUint(seed, 10) != words[1] {
		return fmt.Errorf("seed %.20q: want a whole number below 2^64", words[1])
	}
	p.script.Seed, p.seeded = seed, true
	return nil
}

func (p *scriptParser) at(words []string, add func(step) error) error {
	if len(words) < 3 {
		return errors.New("at: want a time since the start and an act, as: at 3s scanner unplug")
	}
	d, err := parseTime(strings.TrimPrefix(words[1], "t="))
	if err != nil {
		return fmt.Errorf("at: %w", err)
	}
	a, err := parseAct(words[2:])
	if err == nil && a.after != (span{}) {
		err = errors.New("at and after together: add the times up")
	}
	if err != nil {
		return err
	}
	return add(step{kind: stepAt, time: d, act: a})
}

func (p *scriptParser) every(words []string, add func(step) error) error {
	if len(words) < 4 || words[2] != "tickets" {
		return errors.New("every: want a number of tickets and an act or draw, as: every 20 tickets draw")
	}
	n, err := p.count(words[:2], maxRepeat)
	if err != nil {
		return err
	}
	st := step{kind: stepEvery, n: n}
	if len(words) == 4 && words[3] == "draw" {
		p.drawn()
		return add(st)
	}
	if st.act, err = parseAct(words[3:]); err != nil {
		return err
	}
	return add(st)
}

// drawn remembers the first line that needs faults.
func (p *scriptParser) drawn() {
	if p.draws == 0 {
		p.draws = p.line
	}
}

func (p *scriptParser) begin(words []string) error {
	if len(words) != 2 {
		return errors.New("fault: want its name in one word; its acts follow, then end")
	}
	if slices.Contains(p.script.Faults(), words[1]) {
		return fmt.Errorf("fault %.40s is defined already", words[1])
	}
	if len(p.script.faults) == maxFaults {
		return fmt.Errorf("more than %d faults", maxFaults)
	}
	p.fault = &fault{line: p.line, name: words[1]}
	return nil
}

func (p *scriptParser) inFault(words []string) error {
	if words[0] == "end" && len(words) == 1 {
		if len(p.fault.acts) == 0 {
			return fmt.Errorf("fault %.40s does nothing", p.fault.name)
		}
		p.script.faults = append(p.script.faults, *p.fault)
		p.fault = nil
		return nil
	}
	a, err := parseAct(words)
	if err != nil {
		return fmt.Errorf("in fault %.40s: %w", p.fault.name, err)
	}
	p.fault.acts = append(p.fault.acts, job{p.line, p.fault.name, a})
	return nil
}

func (p *scriptParser) finish() (*Script, error) {
	if p.fault != nil {
		return nil, &ScriptError{p.script.name, p.fault.line, fmt.Errorf("fault %.40s has no end", p.fault.name)}
	}
	if p.draws > 0 && len(p.script.faults) == 0 {
		return nil, &ScriptError{p.script.name, p.draws, errors.New("draw: no fault is defined")}
	}
	return p.script, nil
}

// String is the script in its plainest form, which reads back as the same script.
func (s *Script) String() string {
	var b strings.Builder
	if s.Seed != 0 {
		fmt.Fprintf(&b, "seed %d\n", s.Seed)
	}
	for _, f := range s.faults {
		fmt.Fprintf(&b, "fault %s\n", f.name)
		for _, j := range f.acts {
			fmt.Fprintf(&b, "  %v\n", j.act)
		}
		b.WriteString("end\n")
	}
	for _, st := range s.steps {
		b.WriteString(st.String() + "\n")
	}
	return b.String()
}

func (st step) String() string {
	switch st.kind {
	case stepWait:
		return "wait " + st.time.show(showTime)
	case stepAt:
		return "at " + st.time.show(showTime) + " " + st.act.String()
	case stepEvery:
		what := st.act.String()
		if what == "" {
			what = "draw"
		}
		return fmt.Sprintf("every %d tickets %s", st.n, what)
	case stepDraw:
		return "draw"
	case stepTickets:
		return fmt.Sprintf("tickets %d", st.n)
	}
	return st.act.String()
}
