package control

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// Pack is a pack as this terminal knows it, and what its public code says in words.
type Pack struct {
	validate.Pack
	Note        validate.PackNote `json:"note"`
	Activatable bool              `json:"activatable"` // the shop may put it on sale
	Message     Message           `json:"message"`
}

type activateRequest struct {
	ID       string `json:"id,omitempty"` // of the view that shows the pack; else the pack is named
	GameCode string `json:"game_code,omitempty"`
	Pack     uint32 `json:"pack,omitempty"`
}

// pack words a pack; ticket is the one whose code was scanned, or none.
func (s *server) pack(p validate.Pack, ticket uint16) Pack {
	note := p.Note(ticket)
	text := note.Text(s.opt.Language)
	return Pack{Pack: p, Note: note, Activatable: p.Activatable(), Message: Message{note.Code(), text.Word, text.Clerk, text.Next, note.Technician()}}
}

// noTicket is a number that no ticket of a pack has: the pack itself is meant.
const noTicket = 1<<16 - 1

func (s *server) packs(w http.ResponseWriter, r *http.Request) {
	list, err := s.opt.Terminal.Inventory(r.Context())
	if list == nil {
		list = []validate.PackRun{}
	}
	s.done(w, list, err)
}

func (s *server) packStatus(w http.ResponseWriter, r *http.Request) {
	pack, err := strconv.ParseUint(r.PathValue("pack"), 10, 32)
	if err != nil || len(r.PathValue("game")) > 16 {
		fail(w, http.StatusBadRequest, fmt.Errorf("pack %.20q of game code %.20q: want numbers", r.PathValue("pack"), r.PathValue("game")))
		return
	}
	p, err := s.opt.Terminal.Pack(r.Context(), r.PathValue("game"), uint32(pack))
	s.done(w, s.pack(p, noTicket), err)
}

// activate puts a pack on sale: the one on the counter, or one that is named. A pack that
// cannot be is answered as it stands.
func (s *server) activate(w http.ResponseWriter, r *http.Request) {
	var q activateRequest
	if !read(w, r, &q) {
		return
	}
	if q.ID != "" {
		v, err := s.opt.Terminal.ActivateShown(r.Context(), q.ID)
		if err != nil {
			s.refuse(w, err)
			return
		}
		write(w, http.StatusOK, s.pack(*v.Pack, v.Code.Number))
		return
	}
	p, err := s.opt.Terminal.ActivatePack(r.Context(), q.GameCode, q.Pack)
	if errors.Is(err, terminal.ErrNotForSale) && p.GameCode != "" {
		err = nil // the answer says how it stands, and that it is not on sale
	}
	s.done(w, s.pack(p, noTicket), err)
}
