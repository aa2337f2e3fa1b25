package scanner

import (
	"fmt"
	"strings"
	"time"
)

// honeywell triggers Honeywell scanners in manual trigger mode and asks them for their
// settings by menu commands. The answer repeats the command's six letters and ends in
// a mark and a full stop, with no end mark of a record, in the stream of the scans.
// Source: N86 user guide, chapter 10.
type honeywell struct {
	d      *Decoder
	tag    string // of the query whose answer may still come, "" for none
	forget time.Time
	until  time.Time // the query is given up, zero when nobody waits
	held   []byte    // may be the beginning of the answer
	heldAt time.Time
}

const (
	syn = 0x16
	ack = 0x06
	enq = 0x05
	nak = 0x15

	hwPatience = 2 * time.Second
	hwLate     = 10 * time.Second // an answer so late is still no scan
	hwTag      = 6                // letters of a menu command
)

func (h *honeywell) opened(time.Time, int) {}

// frame makes a command. Settings are only asked for: one that is stored wears the
// scanner's flash, and belongs to its set-up sheet.
func (h *honeywell) frame(c Command, tag string, at time.Time) ([]byte, bool, error) {
	switch c {
	case Trigger:
		return []byte{syn, 'T', cr}, false, nil
	case Release:
		return []byte{syn, 'U', cr}, false, nil
	case query:
		if len(tag) != hwTag || strings.Trim(tag, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return nil, false, fmt.Errorf("query %.12q: want the six capital letters or digits of a menu command", tag)
		}
		h.tag, h.until, h.forget = tag, at.Add(hwPatience), at.Add(hwLate)
		return append([]byte{syn, 'M', cr}, tag+"?."...), true, nil
	}
	return nil, false, ErrUnsupported
}

// feed takes the answer out, which begins where a record would.
func (h *honeywell) feed(b []byte, at time.Time) []output {
	var out []output
	for _, c := range b {
		if h.tag == "" || len(h.held) == 0 && !h.d.fresh() {
			out = append(out, eventsOf(h.d.Feed([]byte{c}, at))...)
			continue
		}
		h.held, h.heldAt = append(h.held, c), at
		n := min(len(h.held), hwTag)
		switch {
		case !strings.EqualFold(string(h.held[:n]), h.tag[:n]) || len(h.held) > MaxRecord:
			out = append(out, h.pass()...)
		case len(h.held) >= hwTag+2 && (c == '.' || c == '!'):
			out = append(out, h.ended()...)
		}
	}
	return out
}

// pass gives the decoder what was no answer.
func (h *honeywell) pass() []output {
	out := eventsOf(h.d.Feed(h.held, h.heldAt))
	h.held = h.held[:0]
	return out
}

// ended looks at what may be the answer's full stop: the mark before it tells.
func (h *honeywell) ended() []output {
	var err error
	switch h.held[len(h.held)-2] {
	case ack:
	case enq:
		err = fmt.Errorf("query %s: no such setting: %w", h.tag, ErrRefused)
	case nak:
		err = fmt.Errorf("query %s: %w", h.tag, ErrRefused)
	default:
		return nil // a full stop of the text
	}
	text := string(h.held[hwTag : len(h.held)-2])
	waits := !h.until.IsZero()
	h.tag, h.until, h.held = "", time.Time{}, h.held[:0]
	if !waits {
		return nil
	}
	return []output{{answer: &answer{text: text, err: err}}}
}

func (h *honeywell) tick(at time.Time, silent bool) []output {
	var out []output
	if silent {
		if len(h.held) > 0 && at.Sub(h.heldAt) >= h.d.idle {
			out = h.pass()
		}
		if len(h.held) == 0 {
			out = append(out, eventsOf(h.d.Silence(at))...)
		}
	}
	if !h.until.IsZero() && at.After(h.until) {
		h.until = time.Time{}
		out = append(out, output{answer: &answer{err: fmt.Errorf("query %s: %w", h.tag, ErrNoAnswer)}})
	}
	if len(h.held) == 0 && at.After(h.forget) {
		h.tag = ""
	}
	return out
}

func (h *honeywell) closed() int {
	n := len(h.held) + h.d.Reset()
	h.tag, h.until, h.held = "", time.Time{}, h.held[:0]
	return n
}
