package printer

import (
	"context"
	"fmt"
	"image"
	"io"
	"log/slog"
	"strings"
	"time"

	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/money"
)

// Shop is what a slip says of the point of sale.
type Shop struct {
	Name    string
	Address []string
}

// Stationery is how a terminal's slips look.
type Stationery struct {
	Shop     Shop
	Logo     image.Image // on top of every slip, as ReadLogo gives it; nil for none
	Language money.Language
	Zone     *time.Location
	// Sign makes the control code of a claim, ASCII of at most 240 bytes (proof.Code);
	// nil leaves slips without one.
	Sign func(validate.Receipt) (code string, err error)
}

// Receipt lays out the slip of a committed claim: what was paid, for which ticket,
// when, the ledger number by which it can be asked for, and the code by which it can be
// checked. The secret is not on it, but for its last two digits. From copy 2 on it is
// marked DUPLICATA, and the slip of a demonstration block says that it is worth nothing.
// The error says why the slip carries no code; it is whole without, and may be printed.
func (st Stationery) Receipt(r validate.Receipt) (Slip, error) {
	say := wordsFor(st.Language)
	s := st.head()
	if r.Slip.Demonstration {
		s.Banner(say.demonstration)
		s.Line(say.worthless, Centre)
		s.Blank()
	}
	if r.Copies > 1 {
		s.Banner(fmt.Sprintf("DUPLICATA %d", r.Copies-1))
		s.Blank()
	}
	s.Line(say.title, Bold, Centre)
	s.Rule()
	s.Pair(say.game, r.Slip.Game)
	s.Pair(say.emission, fmt.Sprintf("%s / %s", r.Slip.Emission, r.Slip.GameCode))
	s.Pair(say.ticket, r.Slip.Pack+"-"+r.Slip.Ticket)
	if r.Slip.SecretTail != "" {
		s.Pair(say.code, "..."+r.Slip.SecretTail)
	}
	s.Rule()
	s.Line(money.Text(r.Amount, r.Currency, st.Language, money.Receipt), Bold, Big, Centre)
	s.Line(money.Words(r.Amount, r.Currency, st.Language), Centre)
	s.Rule()
	s.Pair(say.number, r.Number.String())
	s.Pair(say.terminal, r.Terminal)
	s.Pair(say.date, r.At.In(st.Zone).Format(say.dateLayout))
	if r.Trusted.IsZero() {
		s.Line(say.untrusted)
	}
	if r.Operator != "" {
		s.Pair(say.operator, r.Operator)
	}
	s.Blank()
	err := st.code(&s, r, say)
	s.Line(say.keep, Centre)
	return s, err
}

// head begins a slip: logo, name and address of the point of sale.
func (st Stationery) head() Slip {
	var s Slip
	if st.Logo != nil {
		s.Logo(st.Logo)
	}
	s.Line(st.Shop.Name, Bold, Centre)
	for _, line := range st.Shop.Address {
		s.Line(line, Centre)
	}
	s.Blank()
	return s
}

// code adds the control code, or nothing.
func (st Stationery) code(s *Slip, r validate.Receipt, say slipWords) error {
	if st.Sign == nil {
		return nil
	}
	code, err := st.Sign(r)
	if err != nil {
		return fmt.Errorf("slip %v: %w", r.Number, err)
	}
	s.QR(code)
	s.Line(say.check, Centre)
	s.Blank()
	return nil
}

// PNG draws the slip of a receipt as profile p prints it.
func (st Stationery) PNG(w io.Writer, r validate.Receipt, p Profile) error {
	slip, _ := st.Receipt(r) // without its code it is worth showing, too; Print logs why
	return PNG(w, slip, p)
}

type slipWords struct {
	title, game, emission, ticket, code, number, terminal, date, dateLayout, operator, untrusted, demonstration, worthless, check, keep string
}

func wordsFor(l money.Language) slipWords {
	if l == money.English {
		return slipWords{"PAYMENT RECEIPT", "Game", "Emission / code", "Ticket", "Hidden code", "Ledger number", "Terminal", "Date", "02/01/2006 15:04:05", "Clerk",
			"Time of the terminal, not verified", "DEMONSTRATION", "Of no value", "Code to check this receipt", "Please keep this receipt."}
	}
	return slipWords{"REÇU DE PAIEMENT", "Jeu", "Émission / code", "Ticket", "Code caché", "N° de registre", "Terminal", "Date", "02/01/2006 15:04:05", "Opérateur",
		"Heure du terminal, non vérifiée", "DÉMONSTRATION", "Sans valeur", "Code de contrôle du reçu", "Conservez ce reçu."}
}

// Desk is the printer as the counter uses it: receipts go in, levels come out.
type Desk struct {
	Device     *Device
	Stationery Stationery
	Log        *slog.Logger
}

// Ready is nil, or what keeps a slip from being printed now. A roll that is nearly
// used up keeps nothing.
func (d Desk) Ready() *terminal.Fault {
	if f := d.Device.Status().Fault; f != nil && f.Stops {
		return counterFault(f)
	}
	return nil
}

// Warning is nil, or what will keep slips from being printed soon.
func (d Desk) Warning() *terminal.Fault {
	if f := d.Device.Status().Fault; f != nil && !f.Stops {
		return counterFault(f)
	}
	return nil
}

// Changed is closed at the next change of the printer's status.
func (d Desk) Changed() <-chan struct{} { return d.Device.Changed() }

// Print prints the slip of a receipt, behind a pulse for the drawer if asked and wired. One that cannot be signed is printed without its
// code: the player has been paid, and the ledger number is on it all the same.
func (d Desk) Print(ctx context.Context, r validate.Receipt, drawer bool, watch func(*terminal.Fault)) (validate.PrintState, error) {
	slip, err := d.Stationery.Receipt(r)
	if err != nil {
		d.Log.Error("the slip has no control code", "seq", r.Number.Seq, "err", err)
	}
	return d.print(ctx, slip, drawer, watch)
}

func (d Desk) print(ctx context.Context, slip Slip, drawer bool, watch func(*terminal.Fault)) (validate.PrintState, error) {
	print := d.Device.Print
	if drawer {
		print = d.Device.PrintPaid
	}
	state, err := print(ctx, slip, func(s State) {
		if f := d.Device.Status().Fault; s == StateHeld && f != nil {
			watch(counterFault(f))
		} else {
			watch(nil)
		}
	})
	if state == StateHeld { // nothing was sent
		return validate.Held, err
	}
	if level := validate.PrintState(state); level.Done() {
		return level, err
	}
	return validate.Unknown, err
}

func counterFault(f *Fault) *terminal.Fault {
	return &terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: strings.TrimSpace(f.Error())}
}
