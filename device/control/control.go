// Package control is the daemon's unix socket: HTTP with JSON, for terminalctl and for
// programs on the same machine. It shows the counter and passes acts on to it; it
// holds no rule of its own and never shows a whole ticket code. Start at Handler.
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"grattoir/device/health"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// Answer is the counter as the socket shows it.
type Answer struct {
	ID      string           `json:"id"` // names the check; pay carries it
	Stage   terminal.Stage   `json:"stage"`
	Entered validate.Entered `json:"entered,omitempty"`
	Ticket  string           `json:"ticket_code,omitempty"` // public part and the secret's last two digits
	Digits  int              `json:"digits,omitempty"`      // at the stage typing: how many hidden digits have still to be typed
	Verdict validate.Verdict `json:"verdict"`
	Message Message          `json:"message"`
	Detail  string           `json:"detail,omitempty"`  // for the technician
	CanAsk  bool             `json:"can_ask,omitempty"` // central may allow the payment
	Receipt *Receipt         `json:"receipt,omitempty"`
	Linked  int64            `json:"linked_minor,omitempty"` // what the same identified person was paid before
	Pack    *Pack            `json:"pack,omitempty"`         // at the stage pack: a public code was scanned
	Error   string           `json:"error,omitempty"`        // stale or needs, when a payment was not tried
}

// Message is the verdict in words.
type Message struct {
	Code       string `json:"code"`
	Word       string `json:"word"`
	Clerk      string `json:"clerk"`
	Next       string `json:"next"`
	Technician string `json:"technician"`
}

// Receipt is a committed claim.
type Receipt struct {
	Number      string              `json:"number"`
	At          time.Time           `json:"at"`
	AmountMinor int64               `json:"amount_minor"`
	Currency    string              `json:"currency"`
	Game        string              `json:"game"`
	Pack        string              `json:"pack"`
	Ticket      string              `json:"ticket"`
	Print       validate.PrintState `json:"print"`
	Copies      int                 `json:"copies"`
	Holding     *Fault              `json:"holding,omitempty"`
}

// Fault is a device's trouble.
type Fault struct {
	Code       string `json:"code"`
	Clerk      string `json:"clerk"`
	Technician string `json:"technician"`
}

// Status is how the terminal is.
type Status struct {
	Terminal   string    `json:"terminal"`
	Shop       string    `json:"shop"`
	Program    string    `json:"program"`
	Policy     string    `json:"policy"` // version in force, "" for none: then nothing is paid
	Limits     Limits    `json:"limits"`
	StandAlone bool      `json:"stand_alone"`
	Head       string    `json:"head"` // newest entry's ledger number
	HeadHash   string    `json:"head_hash"`
	Unsent     Unsent    `json:"unsent"`
	Scanner    *Fault    `json:"scanner"` // null when it works
	Printer    *Fault    `json:"printer"`
	Paper      *Fault    `json:"paper"`    // what the printer will soon need, null for nothing; it stops no payment
	Ledger     *Fault    `json:"ledger"`   // what keeps it from taking payments, null for nothing
	Clock      *Fault    `json:"clock"`    // what is wrong with it, null for nothing; it stops no payment
	Board      []Fault   `json:"board"`    // what is wrong with lamps, drawer, switches and buttons, worst first; stops no payment
	Register   *Fault    `json:"register"` // what keeps identities from central, null for nothing; it stops no payment
	SignOn     bool      `json:"sign_on"`  // somebody must be signed on before anything is paid
	Session    *Session  `json:"session"`  // who is signed on, null for nobody or no sign-on
	Training   bool      `json:"training"` // nothing is recorded
	Reprint    []string  `json:"reprint"`  // payments whose slip may not have come out
	Page       string    `json:"page"`
	Blocks     []Block   `json:"blocks"`
	Damaged    []string  `json:"damaged"` // files in the manifests folder that cannot be used
	Now        time.Time `json:"now"`
	Trusted    time.Time `json:"trusted,omitzero"`
	Link       *Link     `json:"link"` // null for a terminal on its own
}

// Limits are the policies that lie here.
type Limits struct {
	Source   string         `json:"source"`   // of the one in force: signed, configuration, or none
	Fault    *Fault         `json:"fault"`    // what is wrong with them, null for nothing
	Signed   []SignedPolicy `json:"signed"`   // accepted ones, oldest version first
	Unusable []UnusableFile `json:"unusable"` // files that are ignored
	Findings []string       `json:"findings"` // gaps and overlaps of the days
}

// SignedPolicy is a policy that was accepted.
type SignedPolicy struct {
	Version   string   `json:"version"`
	ValidFrom string   `json:"valid_from"`
	ValidTo   *string  `json:"valid_to"` // null for no end
	SignedBy  []string `json:"signed_by"`
	File      string   `json:"file"`
	InForce   bool     `json:"in_force"`
}

// UnusableFile is a file that is ignored, and why.
type UnusableFile struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Link is the way to central.
type Link struct {
	Contact     time.Time `json:"contact,omitzero"` // last good answer since the start
	Acked       string    `json:"acked"`            // newest entry that central has countersigned
	Entries     int64     `json:"entries"`          // entries above it
	Snapshot    int64     `json:"snapshot"`
	Feed        int64     `json:"feed"`
	Exceptions  int64     `json:"exceptions"` // entries that central did not credit and has not settled
	Certificate time.Time `json:"certificate,omitzero"`
	Faults      []Fault   `json:"faults"`
	Region      string    `json:"region"`      // where central says the terminal stands, "" for nowhere
	QuotaBytes  int64     `json:"quota_bytes"` // what manifests may take
	TakenBytes  int64     `json:"taken_bytes"` // what they take
	// Missing are the blocks that central lists and that do not lie here, the most wanted first.
	Missing []MissingBlock `json:"missing"`
	// NotCredited are those entries and the settled ones, open ones first, the newest at most.
	NotCredited []NotCredited `json:"not_credited"`
	// Suspended is what central has suspended, for this terminal all that it pays.
	Suspended []Suspension `json:"suspended"`
}

// NotCredited is an entry that central stored and did not credit.
type NotCredited struct {
	Number  string `json:"number"` // ledger number
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Settled string `json:"settled"` // who bears it, "" while operations have not settled it
}

// Suspension is this terminal, or a game, that pays nothing until central lifts it.
type Suspension struct {
	Game     string `json:"game"`     // "" for this terminal
	Emission string `json:"emission"` // "" for all
	Block    int    `json:"block"`    // number in the emission, 0 for all
	Reason   string `json:"reason"`
}

// MissingBlock is a block whose tickets are answered with block-not-here.
type MissingBlock struct {
	GameCode  string `json:"game_code"`
	FirstPack uint32 `json:"first_pack"`
	LastPack  uint32 `json:"last_pack"`
	Bytes     int64  `json:"bytes"`
	Own       bool   `json:"own"` // this terminal has packs of it
	Why       string `json:"why"` // coming, quota, disk or program
}

// Unsent is what central has not acknowledged.
type Unsent struct {
	Claims     int64     `json:"claims"`
	MoneyMinor int64     `json:"money_minor"`
	Currency   string    `json:"currency"` // that the terminal pays in
	Oldest     time.Time `json:"oldest,omitzero"`
}

// Block is a manifest that lies here.
type Block struct {
	Game     string `json:"game"`
	GameCode string `json:"game_code"`
	Emission string `json:"emission"`
	Number   int    `json:"block"`
	ID       string `json:"block_id"`
	Tickets  int64  `json:"tickets"`
	Scaled   bool   `json:"scaled"`
	Damaged  bool   `json:"damaged"`
	Locked   bool   `json:"locked"`             // its pepper is not here
	Overlaps string `json:"overlaps,omitempty"` // file of another block that claims the same packs
	File     string `json:"file"`
}

// Options join the socket to the daemon.
type Options struct {
	Terminal *terminal.Terminal
	Language money.Language
	Status   func() Status                           // fills what the terminal itself does not know
	Rescan   func() error                            // looks for new manifests and policies
	Render   func(io.Writer, validate.Receipt) error // draws a slip as PNG
	Roster   Roster                                  // nil where nobody signs on
	Bench    health.Bench                            // the devices, for the self-test
	Printer  PrinterActs
	Ready    func() Readiness // nil for a daemon that is just ready
	Quiet    func() bool      // it is the hour in which nobody is expected; nil for never
	Log      *slog.Logger
}

const maxBody = 4 << 10

// Handler serves the socket's requests.
func Handler(opt Options) http.Handler {
	s := &server{opt: opt}
	if s.opt.Log == nil {
		s.opt.Log = slog.New(slog.DiscardHandler)
	}
	if s.opt.Ready == nil {
		s.opt.Ready = func() Readiness { return Readiness{} }
	}
	if s.opt.Quiet == nil {
		s.opt.Quiet = func() bool { return false }
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/check", s.check)
	mux.HandleFunc("POST /v1/digits", s.digits)
	mux.HandleFunc("POST /v1/pay", s.pay)
	mux.HandleFunc("POST /v1/ask", s.ask)
	mux.HandleFunc("POST /v1/reprint", s.reprint)
	mux.HandleFunc("POST /v1/rescan", s.rescan)
	mux.HandleFunc("GET /v1/view", s.view)
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/last", s.last)
	mux.HandleFunc("GET /v1/slip/{number}", s.slip)
	mux.HandleFunc("POST /v1/selftest", s.selfTest)
	mux.HandleFunc("POST /v1/printer", s.printer)
	mux.HandleFunc("GET /v1/readiness", s.readiness)
	mux.HandleFunc("POST /v1/restart", s.restart)
	mux.HandleFunc("POST /v1/restart/release", s.resume)
	s.acts(mux)
	return http.MaxBytesHandler(mux, maxBody)
}

type server struct {
	opt     Options
	testing sync.Mutex // held over one step of a self-test
}

type checkRequest struct {
	Code  string `json:"code"`
	Typed bool   `json:"typed"`
}

type digitsRequest struct {
	ID     string `json:"id"`
	Digits string `json:"digits"`
}

type payRequest struct {
	ID          string                   `json:"id"`
	ConfirmCash bool                     `json:"confirm_cash"`
	Identity    *validate.Identification `json:"identity,omitempty"`
}

type reprintRequest struct {
	Number string `json:"number"`
}

func (s *server) check(w http.ResponseWriter, r *http.Request) {
	var q checkRequest
	if !read(w, r, &q) {
		return
	}
	entered := validate.Scanned
	if q.Typed {
		entered = validate.Typed
	}
	write(w, http.StatusOK, s.answer(s.opt.Terminal.Check(r.Context(), terminal.Scan{Text: q.Code, Entered: entered}), nil))
}

// digits completes a code whose hidden digits are typed.
func (s *server) digits(w http.ResponseWriter, r *http.Request) {
	var q digitsRequest
	if !read(w, r, &q) {
		return
	}
	v, err := s.opt.Terminal.Complete(r.Context(), q.ID, q.Digits)
	status := http.StatusOK
	if err != nil {
		status = http.StatusConflict
	}
	write(w, status, s.answer(v, err))
}

func (s *server) pay(w http.ResponseWriter, r *http.Request) {
	var q payRequest
	if !read(w, r, &q) {
		return
	}
	v, err := s.opt.Terminal.Pay(r.Context(), q.ID, terminal.Confirmed{Cash: q.ConfirmCash, Identity: q.Identity})
	if err != nil && !errors.Is(err, terminal.ErrStale) && !errors.Is(err, terminal.ErrNeeds) {
		s.refuse(w, err)
		return
	}
	status := http.StatusOK
	if err != nil {
		status = http.StatusConflict
	}
	write(w, status, s.answer(v, err))
}

// ask asks central to allow the payment of the ticket on the counter.
func (s *server) ask(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID string `json:"id"`
	}
	if !read(w, r, &q) {
		return
	}
	v, err := s.opt.Terminal.Ask(r.Context(), q.ID)
	switch {
	case errors.Is(err, terminal.ErrStale):
		write(w, http.StatusConflict, s.answer(v, err))
	case err != nil:
		s.refuse(w, err)
	default:
		write(w, http.StatusOK, s.answer(v, nil))
	}
}

func (s *server) reprint(w http.ResponseWriter, r *http.Request) {
	var q reprintRequest
	if !read(w, r, &q) {
		return
	}
	n, err := ParseNumber(q.Number)
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	receipt, err := s.opt.Terminal.Reprint(r.Context(), n)
	if err != nil {
		s.refuse(w, err)
		return
	}
	write(w, http.StatusOK, s.receipt(receipt, nil))
}

func (s *server) rescan(w http.ResponseWriter, r *http.Request) {
	var q struct{}
	if !read(w, r, &q) {
		return
	}
	if err := s.opt.Rescan(); err != nil {
		fail(w, http.StatusConflict, err)
		return
	}
	s.status(w, r)
}

// viewWait bounds how long a request for another view is kept.
const viewWait = 30 * time.Second

// view answers with the counter; with ?after=ID&stage=S it waits until it shows another
// check or stage, with &reason=R another reason too, or the wait is over.
func (s *server) view(w http.ResponseWriter, r *http.Request) {
	after, stage := r.URL.Query().Get("after"), r.URL.Query().Get("stage")
	timeout := time.NewTimer(viewWait)
	defer timeout.Stop()
	for {
		state, changed := s.opt.Terminal.State()
		v := state.View
		if !r.URL.Query().Has("after") || v.ID != after || string(v.Stage) != stage || r.URL.Query().Has("reason") && r.URL.Query().Get("reason") != string(v.Verdict.Reason) {
			write(w, http.StatusOK, s.answer(v, nil))
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			write(w, http.StatusOK, s.answer(v, nil))
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) {
	st := s.opt.Status()
	state, _ := s.opt.Terminal.State()
	st.Unsent = Unsent{state.Unsent.Claims, int64(state.Unsent.Money), s.opt.Terminal.Currency(), state.Unsent.Oldest}
	st.Training, st.SignOn = state.Training, state.SignOn
	if x := state.Session; x != nil {
		st.Session = &Session{x.Operator, x.Name, x.Role, x.Since, x.Locked, int64(x.Float), x.Currency}
	}
	st.Scanner, st.Printer, st.Ledger, st.Clock = s.fault(state.Scanner), s.fault(state.Printer), s.fault(state.Ledger), s.fault(state.Clock)
	st.Paper = s.fault(state.Paper)
	st.Board = []Fault{}
	for i := range state.Board {
		st.Board = append(st.Board, *s.fault(&state.Board[i]))
	}
	st.Limits.Fault = s.fault(state.Limits)
	st.Reprint = []string{}
	for _, n := range state.Reprint {
		st.Reprint = append(st.Reprint, n.String())
	}
	write(w, http.StatusOK, st)
}

func (s *server) last(w http.ResponseWriter, r *http.Request) {
	list, err := s.opt.Terminal.Last(r.Context(), 10)
	if err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	out := make([]Receipt, 0, len(list))
	for _, x := range list {
		out = append(out, *s.receipt(x, nil))
	}
	write(w, http.StatusOK, out)
}

// slip draws the slip of any claim, as its newest copy is.
func (s *server) slip(w http.ResponseWriter, r *http.Request) {
	n, err := ParseNumber(r.PathValue("number"))
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	receipt, err := s.opt.Terminal.Receipt(r.Context(), n)
	if err != nil {
		fail(w, http.StatusNotFound, err)
		return
	}
	var b bytes.Buffer
	if err := s.opt.Render(&b, receipt); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_, _ = w.Write(b.Bytes()) // the client has gone; nothing to do about it
}

func (s *server) answer(v terminal.View, err error) Answer {
	a := Answer{ID: v.ID, Stage: v.Stage, Entered: v.Entered, Verdict: v.Verdict, Detail: v.Detail, CanAsk: v.CanAsk(), Linked: int64(v.Linked)}
	if v.Verdict.Needs == nil {
		a.Verdict.Needs = []validate.Need{}
	}
	if v.Code.Game != "" {
		a.Ticket = v.Code.String()
	}
	if v.Verdict.Reason != "" {
		text := v.Verdict.Reason.Text(s.opt.Language)
		a.Message = Message{v.Verdict.Reason.Code(), text.Word, text.Clerk, text.Next, v.Verdict.Reason.Technician()}
	}
	if v.Stage == terminal.Typing {
		text := validate.TypeDigits(v.Code.TypedDigits(), s.opt.Language)
		a.Digits, a.Message = v.Code.TypedDigits(), Message{"", text.Word, text.Clerk, text.Next, "the layout has its secret outside the barcode"}
	}
	if v.Pack != nil {
		a.Pack = new(s.pack(*v.Pack, v.Code.Number))
		a.Message = a.Pack.Message
	}
	if v.Receipt != nil {
		a.Receipt = s.receipt(*v.Receipt, v.Holding)
	}
	switch {
	case errors.Is(err, terminal.ErrStale):
		a.Error = "stale"
	case errors.Is(err, terminal.ErrNeeds):
		a.Error = "needs"
	case err != nil:
		a.Error = "failed"
	}
	return a
}

func (s *server) receipt(r validate.Receipt, holding *terminal.Fault) *Receipt {
	return &Receipt{Number: r.Number.String(), At: r.At, AmountMinor: int64(r.Amount), Currency: r.Currency, Game: r.Slip.Game,
		Pack: r.Slip.Pack, Ticket: r.Slip.Ticket, Print: r.Print, Copies: r.Copies, Holding: s.fault(holding)}
}

func (s *server) fault(f *terminal.Fault) *Fault {
	if f == nil {
		return nil
	}
	return &Fault{f.Code, f.Clerk(s.opt.Language), f.Technician}
}

// ParseNumber reads a ledger number as slips show it.
func ParseNumber(text string) (validate.EntryNumber, error) {
	e, q, ok := strings.Cut(text, "-")
	epoch, err1 := strconv.ParseInt(e, 10, 64)
	seq, err2 := strconv.ParseInt(q, 10, 64)
	if !ok || err1 != nil || err2 != nil || epoch < 1 || seq < 1 {
		return validate.EntryNumber{}, fmt.Errorf("ledger number %.12q: want it as on the slip, like 1-000017", text)
	}
	return validate.EntryNumber{Epoch: epoch, Seq: seq}, nil
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) || dec.More() {
		// Never the decoder's own words: they may quote a ticket code.
		fail(w, http.StatusBadRequest, errors.New("the request is not the JSON this address takes"))
		return false
	}
	return true
}

type failure struct {
	Error      string `json:"error"`
	Code       string `json:"code,omitempty"` // for the phone
	Clerk      string `json:"clerk,omitempty"`
	Technician string `json:"technician,omitempty"`
}

func fail(w http.ResponseWriter, status int, err error) {
	write(w, status, failure{Error: err.Error()})
}

func write(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client has gone; nothing to do about it
}

// Listen makes the socket, for its owner and group only. It removes a socket that
// nobody answers at, and nothing else.
func Listen(path string) (net.Listener, error) {
	if len(path) > 107 { // the system's limit (unix(7))
		return nil, fmt.Errorf("socket %s: %d bytes, at most 107: name a shorter path", path, len(path))
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("socket %s: something else lies there; remove it or name another path", path)
	default:
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("socket %s: another program answers there; stop the other terminald first", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w (does its folder exist, and may this user write there?)", path, err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
