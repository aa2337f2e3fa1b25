package screen

import (
	"context"
	"fmt"
	"net/url"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// noteSeen enters what the clerk sees on the paper of the ticket below the sheet.
func (s *Screen) noteSeen(ctx context.Context, x sheet, f url.Values) error {
	if x.name != paperSheet {
		return terminal.ErrStale
	}
	if _, err := s.opt.Terminal.Note(ctx, x.over, terminal.Seen(f.Get("seen"))); err != nil {
		return fmt.Errorf("fault of the paper: %w", err)
	}
	s.lay(sheet{})
	return nil
}

// paper offers the faults that a ticket's paper can have. The one that stands is marked,
// and can be taken back.
func (p *sheetView) paper(on terminal.View, w words) {
	p.Title, p.Text = w.PaperTitle(), []string{w.PaperTold()}
	offer := func(id string, what terminal.Seen, label, more string) {
		p.Rows = append(p.Rows, button{ID: id, Action: "/sheet/seen", Label: label, More: []string{more}, Fields: []field{{"seen", string(what)}}, Bad: on.Seen == what && what != terminal.Sound})
	}
	offer("seen-void", terminal.VoidBox, w.PaperVoid(), w.PaperVoidMore())
	offer("seen-misprint", terminal.Misprinted, w.PaperMisprint(), w.PaperMisprintMore())
	if on.Seen != terminal.Sound {
		offer("seen-sound", terminal.Sound, w.PaperSound(), w.PaperSoundMore())
	}
}

// misprinted offers to refund or exchange a ticket that the clerk found misprinted, or says
// what was done of it.
func (s *Screen) misprinted(v *view, on terminal.View, state terminal.State, l money.Language) {
	w := v.W
	if m := on.TakenIn; m != nil {
		v.NextStep = w.takenIn(*m, l) + w.On() + w.moment(m.At, s.opt.Now(), s.opt.Zone) + ", " + w.Entry() + "\u00a0" + m.Entry.String() + ". " + w.KeepTicket()
		return
	}
	sign, nobody := signing(state, w)
	switch {
	case !on.CanTakeIn() || state.Training || state.Batch != nil && !state.Batch.Paid:
	case nobody:
		v.Acts = []button{sign}
	default:
		v.CanSlip = false // there is no room for it before the player has his money, or another ticket
		for _, r := range []validate.Remedy{validate.Exchanged, validate.Refunded} {
			b := opens(whoSheet, w.remedyOf(r, on.Opened, l), field{"purpose", string(toTakeIn)}, field{"remedy", string(r)})
			b.ID = string(r)
			v.Acts = append(v.Acts, b)
		}
	}
}
