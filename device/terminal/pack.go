package terminal

import (
	"context"
	"errors"
	"fmt"

	"grattoir/validate"
	"grattoir/validate/ticket"
)

// Packs is what is known of packs here, and the act of putting one on sale.
type Packs interface {
	// Pack is what is known of a pack. The game code is as printed, padded.
	Pack(ctx context.Context, gameCode string, pack uint32) (validate.Pack, error)
	// Inventory are the packs of this terminal, in whatever state.
	Inventory(ctx context.Context) ([]validate.PackRun, error)
	// Activate puts a delivered pack of this terminal on sale, durably, and gives it as it
	// then stands. One that cannot be put on sale comes back with ErrNotForSale.
	Activate(ctx context.Context, gameCode string, pack uint32, operator string, entered validate.Entered) (validate.Pack, error)
}

var (
	// ErrNoPacks means a terminal on its own: every pack that lies here is on sale.
	ErrNoPacks = errors.New("this terminal has no central, and so no packs of its own and no messages")
	// ErrNotForSale means that a pack is not one that can be put on sale here now.
	ErrNotForSale = errors.New("the pack cannot be put on sale here")
	// ErrGameSuspended means a pack of a game, an emission or a block that central has suspended.
	ErrGameSuspended = errors.New("the pack's game, emission or block is suspended")
	// ErrSalesEnded means a pack of a block of which central has ended the sales: its last top
	// prize was paid.
	ErrSalesEnded = errors.New("no more packs of this block are put on sale")
	errTraining   = errors.New("training is on: nothing is recorded")
	// ErrPackHere means that the counter shows a pack, which nobody pays.
	ErrPackHere = errors.New("a pack is on the counter, not a ticket to pay")
)

// showPack answers a public code: how its pack stands, and never a prize. The lock of
// acts is held.
func (t *Terminal) showPack(ctx context.Context, v View, code ticket.Code) View {
	p, err := t.opt.Packs.Pack(ctx, code.Game, code.Pack)
	if err != nil { // nothing is known then, which is what an unknown pack says
		p, v.Detail = validate.Pack{GameCode: code.Game, Number: code.Pack}, err.Error()
	}
	v.Stage, v.Code, v.Pack = OnPack, code, &p
	t.opt.Log.Info("pack", "ticket", code, "note", p.Note(code.Number), "entered", v.Entered, "detail", v.Detail)
	t.change(func(st *State) { st.View = v })
	t.opt.Step("shown")
	return v
}

// ActivateShown puts the pack on sale that view id shows. Somebody who was signed on has
// asked for it and confirmed it. A pack that is on sale already, from a double tap, is no
// error; one that cannot be is shown as it stands.
func (t *Terminal) ActivateShown(ctx context.Context, id string) (View, error) {
	ctx = context.WithoutCancel(ctx)
	if err := t.enter(); err != nil {
		return t.shown(), err
	}
	defer t.act.Unlock()
	state, _ := t.State()
	v := state.View
	if v.ID != id || id == "" || v.Stage != OnPack || v.Pack == nil {
		return v, ErrStale
	}
	p, err := t.activate(ctx, v.Code.Game, v.Code.Pack, v.Entered)
	if err != nil && !errors.Is(err, ErrNotForSale) {
		return v, err
	}
	v.Pack, v.Detail = &p, ""
	if err != nil {
		v.Detail = err.Error()
	}
	t.change(func(st *State) { st.View = v })
	return v, nil
}

// ActivatePack puts a pack on sale that is named and not shown. The errors include
// ErrNotForSale with the pack as it stands, ErrNoPacks and *Denied.
func (t *Terminal) ActivatePack(ctx context.Context, gameCode string, pack uint32) (validate.Pack, error) {
	if t.opt.Packs == nil {
		return validate.Pack{}, ErrNoPacks
	}
	if err := t.enter(); err != nil {
		return validate.Pack{}, err
	}
	defer t.act.Unlock()
	return t.activate(context.WithoutCancel(ctx), gameCode, pack, validate.Typed)
}

func (t *Terminal) activate(ctx context.Context, gameCode string, pack uint32, entered validate.Entered) (validate.Pack, error) {
	operator, err := t.acting()
	if err != nil {
		return validate.Pack{}, err
	}
	if state, _ := t.State(); state.Training {
		return validate.Pack{}, &Denied{Fault: inTraining(), Err: errTraining}
	}
	if err := t.opt.Ledger.Writable(); err != nil {
		return validate.Pack{}, &Denied{Fault: *t.opt.LedgerFault(err), Err: err}
	}
	p, err := t.opt.Packs.Activate(ctx, gameCode, pack, operator, entered)
	if err != nil {
		t.opt.Log.Warn("pack not activated", "game", gameCode, "pack", pack, "operator", operator, "err", err)
		switch {
		case errors.Is(err, ErrGameSuspended):
			err = &Denied{Fault: packSuspended(), Err: err}
		case errors.Is(err, ErrSalesEnded):
			err = &Denied{Fault: salesEnded(), Err: err}
		}
		return p, fmt.Errorf("pack %d of game code %.16s: %w", pack, gameCode, err)
	}
	t.opt.Step("pack-activated")
	t.opt.Log.Info("pack activated", "game", gameCode, "pack", pack, "operator", operator)
	return p, nil
}

// inTraining is why a pack is not put on sale while training is on.
func inTraining() Fault {
	return Fault{Code: "K10", ClerkFR: "Formation\u00a0: aucun livret\nn'est activé.", ClerkEN: "Training: no pack is activated.",
		Technician: "Training is on, in which nothing is recorded: terminalctl training off."}
}

func packSuspended() Fault {
	return Fault{Code: "K12", ClerkFR: "Jeu suspendu\u00a0: ce livret n'est\npas mis en vente.", ClerkEN: "The game is suspended: this pack\nis not put on sale.",
		Technician: "Central has suspended the game, its emission or this block: central game suspensions says why, central game resume lifts it."}
}

func salesEnded() Fault {
	return Fault{Code: "K13", ClerkFR: "Gros lot du bloc payé\u00a0: ce\nlivret n'est plus mis en vente.", ClerkEN: "The block's top prize is paid:\nthis pack is not put on sale.",
		Technician: "The last top prize of this block was paid, and central has ended its sales: central game sales. Packs on sale stay so."}
}

// Faults lists the faults that the counter words itself.
func Faults() []Fault {
	return []Fault{inTraining(), unreadMessage(), packSuspended(), salesEnded(), restarting}
}

// Pack is what is known of a pack, or ErrNoPacks.
func (t *Terminal) Pack(ctx context.Context, gameCode string, pack uint32) (validate.Pack, error) {
	if t.opt.Packs == nil {
		return validate.Pack{}, ErrNoPacks
	}
	return t.opt.Packs.Pack(ctx, gameCode, pack)
}

// Inventory are the packs of this terminal, or ErrNoPacks.
func (t *Terminal) Inventory(ctx context.Context) ([]validate.PackRun, error) {
	if t.opt.Packs == nil {
		return nil, ErrNoPacks
	}
	return t.opt.Packs.Inventory(ctx)
}
