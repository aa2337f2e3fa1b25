// Package screen is the page on the clerk's screen and its twin for the player. The
// server writes every word, amount and colour; the browser only swaps one view for the
// next. The page decides nothing: it shows the counter's state and passes presses on,
// which the counter may refuse. Nothing that comes by GET changes
// anything, and only this machine's own pages are answered.
//
// Start at Screen.Handler; view.go says what is shown of the counter, sheet.go what the
// clerk lays over it, live.go how it reaches the browser, guard.go whom the server answers.
package screen

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

//go:embed templates static
var files embed.FS

// Options make a Screen. Terminal and Log are required.
type Options struct {
	Terminal *terminal.Terminal
	Name     string // the terminal's name, shown on top
	Shop     string // the shop's name, shown on top
	// Languages that the clerk may choose from; the first is shown first. Empty means
	// French and English. A single one shows no switch.
	Languages []money.Language
	Zone      *time.Location // for the times people read; nil is UTC
	Currency  string         // of the unsent money, ISO 4217; "" is EUR
	Notice    string         // the law's sentence on the idle page, always in French; "" is the default one
	// Render draws a receipt's slip as PNG; nil shows no preview.
	Render        func(io.Writer, validate.Receipt) error
	Demonstration bool             // says on every view that tickets have no value
	StandAlone    bool             // the terminal has no central to send to
	DataDate      func() time.Time // of the newest manifest, zero for none; nil is none
	Now           func() time.Time // the device's clock; nil is time.Now
	Trusted       func() time.Time // newest trusted time, zero for none; nil is none
	// Operators are those who may be chosen to sign on or to allow an act, nil where nobody signs on.
	Operators func(context.Context) ([]Operator, error)
	Workshop  Workshop // of the technician
	Log       *slog.Logger
}

// Screen serves the pages of one terminal. It is safe for concurrent use.
type Screen struct {
	opt     Options
	pages   *template.Template
	boot    string // names this run of the program; a page of another run loads itself anew
	token   string // every press carries it: only a page that this run wrote has it
	beat    time.Duration
	silence time.Duration // after which the page says that nobody answers
	guard   time.Duration // presses this soon after a new view are not meant for it
	streams chan struct{} // one place for each open stream
	closed  context.Context
	close   context.CancelFunc

	working sync.WaitGroup // what a sheet has begun and takes long
	act     sync.Mutex     // held over one press
	tries   tries          // of PINs on the page, guarded by act

	mu      sync.Mutex // guards what follows
	seq     uint64     // rises at every change of what is shown
	seen    <-chan struct{}
	asking  string        // id of the view, or of the batch, for which the cash question stands
	askedAt time.Time     // since when
	sheet   sheet         // laid over the counter
	serial  uint64        // of the newest sheet
	asked   chan struct{} // closed when asking or the sheet changes
}

// The rhythm of the page: a sign of life every 5 s, a warning after 10 s without one.
const (
	beatEvery    = 5 * time.Second
	silenceAfter = 10 * time.Second
	guardFor     = 500 * time.Millisecond
	maxStreams   = 16
)

// New makes the pages. Its errors are mistakes in Options or in the templates.
func New(opt Options) (*Screen, error) {
	if opt.Terminal == nil || opt.Log == nil {
		return nil, errors.New("screen: a terminal and a log are required")
	}
	if len(opt.Languages) == 0 {
		opt.Languages = []money.Language{money.French, money.English}
	}
	for _, l := range opt.Languages {
		if l != money.French && l != money.English {
			return nil, fmt.Errorf("screen: language %.10q: want %s or %s", l, money.French, money.English)
		}
	}
	if opt.DataDate == nil {
		opt.DataDate = func() time.Time { return time.Time{} }
	}
	if opt.Zone == nil {
		opt.Zone = time.UTC
	}
	if opt.Currency == "" {
		opt.Currency = "EUR"
	}
	if opt.Notice == "" {
		opt.Notice = defaultNotice
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Trusted == nil {
		opt.Trusted = func() time.Time { return time.Time{} }
	}
	pages, err := template.ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("screen: %w", err)
	}
	closed, cancel := context.WithCancel(context.Background())
	return &Screen{opt: opt, pages: pages, boot: rand.Text(), token: rand.Text(), beat: beatEvery, silence: silenceAfter, guard: guardFor,
		streams: make(chan struct{}, maxStreams), closed: closed, close: cancel, asked: make(chan struct{})}, nil
}

// Close ends the open streams, so that an orderly stop of the server need not wait for
// browsers to leave. Register it with http.Server.RegisterOnShutdown.
func (s *Screen) Close() {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.working.Wait()
}

// Handler serves the clerk's page at / and the player's at /player. It is meant for a
// listener on a loopback address and answers requests for such a host only. Its streams
// last as long as the page: the server that carries it bounds the reading of headers
// (ReadHeaderTimeout), not whole requests and answers.
func (s *Screen) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page("clerk"))
	mux.HandleFunc("GET /player", s.page("player"))
	mux.HandleFunc("GET /events", s.events("clerk"))
	mux.HandleFunc("GET /player/events", s.events("player"))
	mux.HandleFunc("GET /slip/{number}", s.slip)
	mux.HandleFunc("GET /static/{file}", s.static)
	mux.HandleFunc("POST /pay", s.press(s.pay))
	mux.HandleFunc("POST /ask", s.press(s.askCentral))
	mux.HandleFunc("POST /back", s.press(s.back))
	mux.HandleFunc("POST /activate", s.press(s.activate))
	mux.HandleFunc("POST /next", s.press(s.next))
	mux.HandleFunc("POST /reprint", s.press(s.reprint))
	mux.HandleFunc("POST /read", s.press(s.readMessage))
	mux.HandleFunc("POST /language", s.press(s.language))
	mux.HandleFunc("POST /complete", s.press(s.complete))
	mux.HandleFunc("POST /result", s.press(s.printResult))
	mux.HandleFunc("POST /lock", s.press(s.lock))
	mux.HandleFunc("POST /batch", s.press(s.beginBatch))
	mux.HandleFunc("POST /batch/pay", s.press(s.payBatch))
	mux.HandleFunc("POST /batch/end", s.press(s.endBatch))
	mux.HandleFunc("GET /address.png", s.addressPicture)
	mux.HandleFunc("POST /open", s.press(s.open))
	for path, act := range map[string]func(context.Context, sheet, url.Values) error{"code": s.enterCode, "page": s.turnPage, "again": s.again,
		"print": s.printReport, "pick": s.pick, "float": s.enterFloat, "pin": s.enterPIN, "sure": s.sure, "leave": s.leave, "try": s.try,
		"why": s.why, "because": s.because, "words": s.enterWords, "field": s.enterField, "identified": s.payIdentified, "seen": s.noteSeen, "number": s.findSlip} {
		mux.HandleFunc("POST /sheet/"+path, s.on(act))
	}
	return s.guarded(mux)
}

// page answers with a whole page, the view as it is now in it.
func (s *Screen) page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text, err := s.render(name+"-page", s.viewOf(s.take(name), s.languageOf(r)))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(text) // a browser that left has nothing to be told
	}
}

func (s *Screen) render(name string, v view) ([]byte, error) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, v); err != nil {
		return nil, fmt.Errorf("page %s: %w", name, err)
	}
	return b.Bytes(), nil
}

func (s *Screen) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.opt.Log.Error("screen cannot answer", "path", r.URL.Path, "err", err)
	http.Error(w, "The page could not be made; see the terminal's log.", http.StatusInternalServerError)
}

// contentType is the type of a file that a browser may have, "" for any other.
func contentType(file string) string {
	switch file {
	case "screen.js":
		return "text/javascript; charset=utf-8"
	case "screen.css":
		return "text/css; charset=utf-8"
	case "DejaVuSans.ttf", "DejaVuSans-Bold.ttf":
		return "font/ttf"
	case "LICENSE-DejaVu.txt":
		return "text/plain; charset=utf-8"
	}
	return ""
}

func (s *Screen) static(w http.ResponseWriter, r *http.Request) {
	file := r.PathValue("file")
	kind := contentType(file)
	if kind == "" {
		http.NotFound(w, r)
		return
	}
	text, err := files.ReadFile("static/" + file)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text)
}

// slip draws the slip of the claim on the counter, or on the sheet that lies over it, and
// of no other.
func (s *Screen) slip(w http.ResponseWriter, r *http.Request) {
	now := s.take("clerk")
	receipt := now.state.View.Receipt
	if now.sheet.receipt != nil {
		receipt = now.sheet.receipt
	}
	if s.opt.Render == nil || receipt == nil || r.PathValue("number") != receipt.Number.String()+".png" {
		http.NotFound(w, r)
		return
	}
	var b bytes.Buffer
	if err := s.opt.Render(&b, *receipt); err != nil {
		s.fail(w, r, fmt.Errorf("slip of entry %v: %w", receipt.Number, err))
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(b.Bytes())
}

// languageOf reads the clerk's choice; a page that made none gets the first language.
func (s *Screen) languageOf(r *http.Request) money.Language {
	if c, err := r.Cookie("lang"); err == nil && slices.Contains(s.opt.Languages, money.Language(c.Value)) {
		return money.Language(c.Value)
	}
	return s.opt.Languages[0]
}
