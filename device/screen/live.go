package screen

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"grattoir/device/terminal"
)

// writeWithin is how long a browser may take to accept an event before its stream is
// given up; it comes back by itself and gets a snapshot.
const writeWithin = 10 * time.Second

// snapshot is what is to be shown now.
type snapshot struct {
	state  terminal.State
	clerk  bool  // the page is the clerk's
	asking bool  // the question about the cash or the pack stands for this view, or this batch
	sheet  sheet // laid over the counter; the clerk's page alone shows it
	seq    uint64
	// One of these is closed at the next change.
	counter, question <-chan struct{}
}

// take reads the counter and numbers what it finds: of two snapshots the one with the
// higher number is the newer, so a page can drop an answer that was overtaken. The
// question about the cash is for the clerk; the player goes on seeing the verdict.
func (s *Screen) take(page string) snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, changed := s.opt.Terminal.State()
	if changed != s.seen {
		s.seen = changed
		s.seq++
	}
	s.lifted(state)
	clerk := page == "clerk"
	asking := clerk && s.asking != "" && (s.asking == state.View.ID || state.Batch != nil && s.asking == batchAsked(*state.Batch))
	return snapshot{state, clerk, asking, s.sheet, s.seq, changed, s.asked}
}

// events is a page's one stream: the whole view at once, again at every change, and a
// sign of life in between. The heartbeat also notices what changes with the clock alone.
func (s *Screen) events(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		default:
			http.Error(w, "Too many pages are open; close some.", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		lang := s.languageOf(r)
		out := stream{http.NewResponseController(w), w}
		beat := time.NewTicker(s.beat)
		defer beat.Stop()
		var last []byte
		for {
			now := s.take(name)
			text, err := s.render(name, s.viewOf(now, lang))
			if err != nil {
				s.opt.Log.Error("screen cannot show", "err", err)
				return
			}
			if bytes.Equal(text, last) {
				err = out.send("event: beat\ndata: 1\n\n")
			} else {
				err = out.send(fmt.Sprintf("retry: 1000\nid: %s-%d\n%s\n", s.boot, now.seq, dataLines(text)))
			}
			if err != nil {
				return // the browser left, or is stuck; it comes back by itself
			}
			last = text
			select {
			case <-now.counter:
			case <-now.question:
			case <-beat.C:
			case <-r.Context().Done():
				return
			case <-s.closed.Done():
				return
			}
		}
	}
}

// dataLines puts a text into the data field of an event. A carriage return would end a
// line of the event too, and HTML needs none.
func dataLines(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(bytes.ReplaceAll(text, []byte("\r"), nil)) {
		b.WriteString("data: ")
		b.Write(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// stream writes events with a deadline each.
type stream struct {
	control *http.ResponseController
	w       http.ResponseWriter
}

func (o stream) send(event string) error {
	// A recorder in a test has no deadline to set; a connection always has.
	_ = o.control.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := o.w.Write([]byte(event)); err != nil {
		return err
	}
	return o.control.Flush()
}
