package terminal

import (
	"context"
	"errors"

	"grattoir/validate"
)

// Messages are what central says to whoever is at the counter.
type Messages interface {
	// Messages are those in their days, the newest first, read ones too.
	Messages(ctx context.Context) ([]validate.Message, error)
	// Read records, once and durably, that somebody has read a message.
	Read(ctx context.Context, number int64, operator string) error
}

// ErrUnread means that a message waits that must be read before anything is paid.
var ErrUnread = errors.New("a mandatory message of central's was not read")

// unreadMessage is why nothing is paid while a mandatory message waits.
func unreadMessage() Fault {
	return Fault{Code: "K11", ClerkFR: "Lisez d'abord le message du\ncentre.", ClerkEN: "First read the message from\nthe centre.",
		Technician: "A mandatory message waits: press READ on the page, or terminalctl message read NUMBER."}
}

// messages are those that wait to be read, mandatory ones first. What cannot be read now
// is no reason to refuse a payment: the payment asks the same ledger.
func (t *Terminal) messages(ctx context.Context) []validate.Message {
	if t.opt.Messages == nil {
		return nil
	}
	list, err := t.opt.Messages.Messages(ctx)
	if err != nil {
		t.opt.Log.Error("messages of central's cannot be read", "err", err)
		return nil
	}
	var must, may []validate.Message
	for _, m := range list {
		switch {
		case m.Read:
		case m.Mandatory:
			must = append(must, m)
		default:
			may = append(may, m)
		}
	}
	return append(must, may...)
}

// heard is nil unless a mandatory message waits. It is asked at each payment, and what
// the page shows is brought up to date with it.
func (t *Terminal) heard(ctx context.Context) error {
	waiting := t.messages(ctx)
	if len(waiting) == 0 || !waiting[0].Mandatory {
		return nil
	}
	t.change(func(s *State) { s.Messages = waiting })
	return &Denied{Fault: unreadMessage(), Err: ErrUnread}
}

// ReadMessage records that whoever is at the counter has read a message. A message that
// was read before, or is gone, is no error: it does not wait any more.
func (t *Terminal) ReadMessage(ctx context.Context, number int64) error {
	if t.opt.Messages == nil {
		return ErrNoPacks
	}
	ctx = context.WithoutCancel(ctx)
	operator, err := t.acting()
	if err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.act.Unlock()
	if err := t.opt.Messages.Read(ctx, number, operator); err != nil {
		return err
	}
	t.opt.Step("message-read")
	t.opt.Log.Info("message read", "number", number, "operator", operator)
	waiting := t.messages(ctx)
	t.change(func(s *State) { s.Messages = waiting })
	return nil
}

// Messages are what central says now, read or not, the newest first.
func (t *Terminal) Messages(ctx context.Context) ([]validate.Message, error) {
	if t.opt.Messages == nil {
		return nil, nil
	}
	return t.opt.Messages.Messages(ctx)
}
