package ledger

import (
	"context"
	"fmt"

	"grattoir/validate"
	"grattoir/validate/money"
)

// BookedRiskBody says that the claim of the next entry is paid although nobody could say
// that the ticket was not paid before: the pack's owner or central did not answer, and the
// policy has a party bear the loss.
type BookedRiskBody struct {
	Claim       string           `json:"claim"`
	Block       validate.BlockID `json:"block"`
	Pack        uint32           `json:"pack"`
	Ticket      uint16           `json:"ticket"`
	Round       int              `json:"round"`
	AmountMinor money.Amount     `json:"amount_minor"`
	Currency    string           `json:"currency"`
	Party       string           `json:"party"`
	LimitMinor  money.Amount     `json:"limit_minor"`
	Policy      string           `json:"policy"`
	Why         string           `json:"why"`
}

// BookedRisk reads the body of a booked-risk entry.
func (e Entry) BookedRisk() (BookedRiskBody, error) { return bodyOf[BookedRiskBody](e, KindBookedRisk) }

// book appends the entry that books the risk of a claim, before the claim's own.
func (w *writing) book(ctx context.Context, c validate.Claim) error {
	if c.Right != validate.RightRisk {
		return nil
	}
	r := c.Risk
	if r == nil || r.Party == "" || r.Why == "" || c.Amount > r.Limit || c.Round != 0 {
		return fmt.Errorf("%w: the risk of claim %s is booked to nobody, or above its limit", ErrRight, c.ID)
	}
	_, _, err := w.append(ctx, KindBookedRisk, BookedRiskBody{c.ID, c.Ticket.Block, c.Ticket.Pack, c.Ticket.Number, c.Round, c.Amount, c.Currency, r.Party, r.Limit, c.Policy, r.Why})
	return err
}
