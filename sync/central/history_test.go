package central

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// One operation upon a ticket, as a terminal sees it: an id is asked about, or given back,
// or the owner pays and uploads.
type ticketAct struct {
	ticket   uint16
	kind     string // ask, return, pay
	terminal string
	claim    string
}

// ticketState is what one ticket's rules are about: which id may pay, which pays, and which
// answers are final.
type ticketState struct {
	reserved, paid string
	final          [4]string // of the ids that a test uses, by their last digit
}

// ticketModel says what central may answer: approved to one id at a time, for ever the
// same to each, and to nobody once the ticket is paid by another. Pending, and a denial
// because of a reservation, are true at any moment at which they could be.
func ticketModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[uint16][]porcupine.Operation{}
			for _, op := range history {
				t := op.Input.(ticketAct).ticket
				parts[t] = append(parts[t], op)
			}
			var list [][]porcupine.Operation
			for _, p := range parts {
				list = append(list, p)
			}
			return list
		},
		Init: func() any { return ticketState{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(ticketState).step(input.(ticketAct), output.(string))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %s", input, output) },
	}
}

func (s ticketState) step(in ticketAct, out string) (bool, ticketState) {
	if in.kind == "pay" { // by the owner's right
		switch {
		case out == "credited" && s.paid == "" && s.reserved == "":
			s.paid = in.claim
			return true, s
		case out == "conflict":
			return s.paid != "" || s.reserved != "", s
		}
		return false, s
	}
	n := in.claim[len(in.claim)-1] - '0'
	if was := s.final[n]; was != "" && was != "approved" || was == "approved" && (in.kind == "ask" || s.paid == in.claim) {
		return out == was, s
	}
	if out == "pending" {
		return in.kind == "ask", s
	}
	s.final[n] = out
	switch out {
	case "approved":
		ok := in.kind == "ask" && s.reserved == "" && s.paid == ""
		s.reserved = in.claim
		return ok, s
	case "returned":
		if s.reserved == in.claim {
			s.reserved = ""
		}
		return in.kind == "return", s
	case "denied paid":
		return in.kind == "ask" && s.paid != "" && s.paid != in.claim, s
	case "denied granted-elsewhere":
		return in.kind == "ask" && s.reserved != "" && s.reserved != in.claim, s
	}
	return false, s
}

// TestClaimsOfSeveralTerminalsAreOneStory: terminals ask about the same tickets, again and
// again, give back, and the owner holds or pays at the same time. What central answered to
// all of them is what it could have answered one after the other.
func TestClaimsOfSeveralTerminalsAreOneStory(t *testing.T) {
	onEachStore(t, testClaimsOfSeveralTerminalsAreOneStory)
}

func testClaimsOfSeveralTerminalsAreOneStory(t *testing.T, w *world) {
	h := &history{t: t, w: w, begun: time.Now(), owner: w.enrolled(t, "T-0"), kept: map[uint16]bool{}, paid: map[uint16]bool{}}
	w.give(t, "T-0", 10, 19)
	w.patience = time.Millisecond
	won := w.winners(10, 19)[:6]
	h.pays(won[0])
	done := make(chan struct{})
	var askers, owner sync.WaitGroup
	for n := range 3 {
		d := w.enrolled(t, fmt.Sprintf("T-%d", n+1))
		askers.Go(func() { h.asks(d, n+1, won) })
	}
	owner.Go(func() { h.owns(won, done) })
	askers.Wait()
	close(done)
	owner.Wait()
	result, _ := porcupine.CheckOperationsVerbose(ticketModel(), h.ops, time.Minute)
	if result != porcupine.Ok {
		t.Fatalf("%d answers are no story (%s)", len(h.ops), result)
	}
	approved := w.count(t, "SELECT count(*) FROM online_claims WHERE state = 'approved'")
	credited := w.count(t, "SELECT count(*) FROM claims")
	if both := w.count(t, "SELECT count(*) FROM claims c JOIN reservations r ON r.block_id = c.block_id AND r.pack = c.pack AND r.ticket = c.ticket WHERE r.claim <> c.claim"); both != 0 {
		t.Errorf("%d tickets are paid by one terminal and allowed to another", both)
	}
	if approved == 0 || credited == 0 {
		t.Errorf("%d allowed, %d paid by the owner: it proves little", approved, credited)
	}
}

// history writes down what is asked and answered, and when.
type history struct {
	t     *testing.T
	w     *world
	begun time.Time
	owner *device

	mu   sync.Mutex
	ops  []porcupine.Operation
	kept map[uint16]bool // tickets that the owner holds
	paid map[uint16]bool // or has paid
}

func (h *history) do(client int, in ticketAct, act func() string) {
	call := time.Since(h.begun).Nanoseconds()
	out := act()
	ret := time.Since(h.begun).Nanoseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: ret})
}

// asks asks about tickets in an order of its own, and gives some back.
func (h *history) asks(d *device, n int, won []lot) {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	bodies := map[uint16]wire.ClaimRequest{}
	for range 40 {
		l := won[rng.IntN(len(won))]
		q, known := bodies[uint16(l.code.Pack)<<8|l.code.Number]
		if !known {
			q = request(d.wanted(h.t, l, 0xc000+int(l.code.Pack)*0x1000+int(l.code.Number)*0x10+n, 0))
			bodies[uint16(l.code.Pack)<<8|l.code.Number] = q
		}
		kind := "ask"
		if rng.IntN(4) == 0 {
			kind, q.Return = "return", true
		}
		h.do(n, ticketAct{uint16(l.code.Pack)<<8 | l.code.Number, kind, d.name, q.Claim}, func() string {
			var a wire.ClaimAnswer
			if e := post(h.t, d.client, wire.PathClaim, q, &a); e != nil {
				h.t.Error(e)
			}
			if a.State == wire.ClaimDenied {
				return string(a.State) + " " + string(a.Why)
			}
			return string(a.State)
		})
	}
}

// owns answers each hold once it has paid the ticket or never will, as an owner does, and
// pays a ticket now and then by its own right.
func (h *history) owns(won []lot, done <-chan struct{}) {
	cursor := int64(0)
	for turn := 0; ; turn++ {
		select {
		case <-done:
			return
		default:
		}
		for _, item := range h.owner.feed(h.t, cursor) {
			cursor = item.Seq
			if item.Hold == nil {
				continue
			}
			key := uint16(item.Hold.Pack)<<8 | item.Hold.Ticket
			if h.paid[key] {
				continue // its journal is there: the next question finds the payment
			}
			h.kept[key] = true
			if e := h.owner.holds(h.t, item, 0); e != nil {
				h.t.Error(e)
			}
		}
		l := won[turn%len(won)]
		key := uint16(l.code.Pack)<<8 | l.code.Number
		if turn%3 != 0 || h.kept[key] || h.paid[key] || l.code.Number%2 == 0 {
			continue
		}
		h.pays(l)
	}
}

// pays pays a ticket by the owner's right, and uploads that at once.
func (h *history) pays(l lot) {
	key := uint16(l.code.Pack)<<8 | l.code.Number
	h.paid[key] = true
	body := h.owner.claim(h.t, l)
	h.owner.record(h.t, ledger.KindClaim, body)
	n := int64(len(h.owner.lines))
	h.do(0, ticketAct{key, "pay", "T-0", body.Claim}, func() string {
		if _, a := h.owner.send(h.t, n, n); len(a.Exceptions) > 0 {
			return "conflict"
		}
		return "credited"
	})
}

// TestModelOfTheStoryFindsADoublePayment: the checker has teeth.
func TestModelOfTheStoryFindsADoublePayment(t *testing.T) {
	op := func(at int64, in ticketAct, out string) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: out, Call: at, Return: at + 1}
	}
	ask := func(terminal, id string) ticketAct { return ticketAct{1, "ask", terminal, id} }
	for name, ops := range map[string][]porcupine.Operation{
		"two are allowed":            {op(1, ask("T-1", "c1"), "approved"), op(3, ask("T-2", "c2"), "approved")},
		"another answer to an id":    {op(1, ask("T-1", "c1"), "approved"), op(3, ask("T-1", "c1"), "pending")},
		"paid, and allowed":          {op(1, ticketAct{1, "pay", "T-0", "o0"}, "credited"), op(3, ask("T-1", "c1"), "approved")},
		"allowed, and paid":          {op(1, ask("T-1", "c1"), "approved"), op(3, ticketAct{1, "pay", "T-0", "o0"}, "credited")},
		"given back, and still kept": {op(1, ask("T-1", "c1"), "approved"), op(3, ticketAct{1, "return", "T-1", "c1"}, "returned"), op(5, ask("T-2", "c2"), "denied granted-elsewhere")},
	} {
		if porcupine.CheckOperations(ticketModel(), ops) {
			t.Errorf("%s: passes", name)
		}
	}
}
