package validate

import (
	"time"

	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/ticket"
)

// Finding is what the manifests say of a scan. Only Authentic comes with a tier.
type Finding string

const (
	Misread     Finding = "misread"       // no code could be read
	NoGame      Finding = "no-game"       // nothing here knows the game code
	NoBlock     Finding = "no-block"      // the game is known, the block with this pack is not here
	NotInBlock  Finding = "not-in-block"  // the block is here and holds no such ticket
	Damaged     Finding = "damaged"       // the block's file is damaged where the answer lies
	Counterfeit Finding = "not-authentic" // the secret opens nothing
	Authentic   Finding = "authentic"     // proven: this tier, maybe tier 0
)

// Opened is what was proven about a code without ledger, policy or network.
// The zero Opened is a misread.
type Opened struct {
	Finding  Finding
	Code     ticket.Code // zero on a misread
	Block    BlockID     // zero unless the block is here
	Game     string      // game id, "" when unknown
	GameName string
	Emission string
	Number   int // block number in the emission
	Currency string
	Scaled   bool // a demonstration block
	Internet bool // the game pays to the player's account
	Tier     int  // 0 = no prize; only with Authentic
	Amount   money.Amount
	Price    money.Amount // what a ticket is sold for, 0 where that is not known
	NotMoney bool         // the tier's prize is not money
	Weak     bool         // the layout's secret is short: what proves it here, a thief of the terminal can make up
}

// sound tells whether the finding is one that the rules know, and of an authentic ticket
// whether tier and prize can stand together. What is not is damage, whoever reports it.
func (o Opened) sound() bool {
	switch o.Finding {
	case Counterfeit:
		return true
	case Authentic:
		if o.Tier == 0 {
			return o.Amount == 0 && !o.NotMoney
		}
		return o.Tier > 0 && (o.Amount > 0 || o.Amount == 0 && o.NotMoney)
	}
	return false
}

// Key names the opened ticket.
func (o Opened) Key() TicketKey { return TicketKey{o.Block, o.Code.Pack, o.Code.Number} }

// PackState is where a pack stands in its life. The zero state is not known, and not active.
type PackState string

const (
	PackPrinted   PackState = "printed"
	PackDelivered PackState = "delivered"
	PackActive    PackState = "active"
	PackSettled   PackState = "settled"
	PackReturn    PackState = "returned"
	PackStolenNow PackState = "stolen"
)

// Right is who may pay a ticket's pack now.
type Right string

const (
	RightNone   Right = ""       // another terminal owns the pack and central was not asked
	RightOwner  Right = "owner"  // this terminal owns it at the current epoch
	RightGrant  Right = "grant"  // central granted this claim
	RightAsking Right = "asking" // an intent is durable and central has not answered
	RightSilent Right = "silent" // central says that the owner does not answer
	RightRisk   Right = "risk"   // nobody answers, and the policy may book the risk
)

// Facts are what the ledger, central's messages and the clerk know about the ticket.
// The zero Facts allow nothing.
type Facts struct {
	Paying            bool // a payment is about to be committed, not a check
	TerminalSuspended bool
	LedgerWritable    bool // asked only when Paying
	TooManyAttempts   bool
	AcceptScaled      bool // the configuration pays demonstration blocks
	GameSuspended     bool
	Pack              PackState
	VoidBox           bool // the clerk saw the hidden box uncovered before
	Misprint          bool // the clerk saw a misprint
	PaidHere          *Payment
	PaidElsewhere     *Payment
	Closed            policy.Date // closing notice of the emission, zero while open
	Right             Right
	AllowanceLeft     bool
	PrinterReady      bool // asked only when Paying
}

// MaxAttempts is how many failed secrets of one ticket are answered; then the ticket
// is locked until central clears it.
const MaxAttempts = 5

// Clock is what is known of the time. With no trusted time nothing is refused as expired.
type Clock struct {
	Trusted time.Time // zero when no trusted time is known since boot
}

// Decide says what to do with one ticket. It looks at the reasons in the order in
// which they win; the first that holds is the answer. A pack that is not active gets
// no outcome of its tickets at all: the shop must not learn what it has not sold.
func Decide(o Opened, f Facts, p policy.Policy, now Clock) Verdict {
	r := firstReason(o, f, p, now)
	v := Verdict{Outcome: r.Outcome(), Reason: r, Needs: []Need{}, Currency: o.Currency,
		Game: o.Game, Emission: o.Emission, Block: o.Number, Policy: p.Version, Scaled: o.Scaled}
	if o.Code.Game != "" {
		v.Pack, v.Ticket = o.Code.PackText(), o.Code.NumberText()
	}
	if tellsAmount(r) && !o.NotMoney {
		v.AmountMinor = new(o.Amount)
	}
	switch r {
	case AlreadyPaidHere:
		v.Paid = f.PaidHere
	case AlreadyPaidElsewhere:
		v.Paid = f.PaidElsewhere
	case Winner:
		v.Needs = needs(o.Amount, p)
	}
	return v
}

func firstReason(o Opened, f Facts, p policy.Policy, now Clock) Reason {
	for _, step := range []func() Reason{
		func() Reason { return unreadable(o, f) },
		func() Reason { return unprovable(o, f) },
		func() Reason { return packState(f) },
		func() Reason { return settledAlready(o, f, p, now) },
		func() Reason { return notOursToPay(o, f, p, now) },
	} {
		if r := step(); r != "" {
			return r
		}
	}
	return Winner
}

func unreadable(o Opened, f Facts) Reason {
	switch {
	case o.Finding == Misread || o.Finding == "":
		return CodeMisread
	case f.Right == RightAsking:
		return WaitingForCentral
	}
	return ""
}

func unprovable(o Opened, f Facts) Reason {
	switch {
	case f.TerminalSuspended:
		return TerminalSuspended
	case f.Paying && !f.LedgerWritable:
		return LedgerNotWritable
	case o.Finding == NoGame:
		return GameUnknown
	case o.Finding == NoBlock:
		return BlockNotHere
	case o.Finding == NotInBlock:
		return TicketNotInBlock
	case !o.sound():
		return ManifestDamaged
	case f.TooManyAttempts:
		return TooManyAttempts
	case o.Finding == Counterfeit:
		return NotAuthentic
	case o.Scaled && !f.AcceptScaled:
		return DemonstrationBlock
	case f.GameSuspended:
		return GameSuspended
	}
	return ""
}

func packState(f Facts) Reason {
	switch f.Pack {
	case PackStolenNow:
		return PackStolen
	case PackReturn:
		return PackReturned
	case PackActive, PackSettled:
		return ""
	}
	return PackNotActive
}

func settledAlready(o Opened, f Facts, p policy.Policy, now Clock) Reason {
	switch {
	case f.VoidBox:
		return TicketVoid
	case f.PaidHere != nil:
		return AlreadyPaidHere
	case f.PaidElsewhere != nil:
		return AlreadyPaidElsewhere
	case o.Tier == 0:
		return NotAWinner
	case !f.Closed.IsZero() && !now.Trusted.IsZero() && p.ClaimPeriodOver(f.Closed, now.Trusted):
		return ClaimPeriodOver
	case o.Internet:
		return CreditedToAccount
	}
	return ""
}

func notOursToPay(o Opened, f Facts, p policy.Policy, now Clock) Reason {
	switch {
	case f.Misprint:
		return Misprint
	case !f.Closed.IsZero() && now.Trusted.IsZero():
		return ClockNotTrusted
	case o.NotMoney:
		return PrizeNotMoney
	case p.AboveShopLimit(o.Amount, o.Currency):
		return AboveShopLimit
	case (f.Right == RightOwner || f.Right == RightRisk) && o.Weak && !p.PaysWeak(o.Amount):
		return NeedsCentral
	case f.Right == RightSilent, f.Right == RightRisk && !p.BooksRisk(o.Amount):
		return OwnerSilent
	case f.Right != RightOwner && f.Right != RightGrant && f.Right != RightRisk: // none, or one that these rules do not know
		return NeedsCentral
	case f.Right != RightGrant && !f.AllowanceLeft:
		return AllowanceSpent
	case f.Paying && !f.PrinterReady:
		return PrinterNotReady
	}
	return ""
}

// tellsAmount tells for which reasons the prize may be told: those that come after the
// ticket is proven, its pack is active and its box was covered. A misprint is refunded or
// exchanged, whatever the manifest holds.
func tellsAmount(r Reason) bool {
	switch r {
	case NotAWinner, Winner, AlreadyPaidHere, AlreadyPaidElsewhere, ClaimPeriodOver, CreditedToAccount,
		ClockNotTrusted, AboveShopLimit, NeedsCentral, OwnerSilent, AllowanceSpent, PrinterNotReady:
		return true
	}
	return false
}

// BatchNeeds are what the clerk does before several prizes of one request are paid: the
// thresholds hold for each prize and for the total.
func BatchNeeds(prizes []money.Amount, p policy.Policy) ([]Need, money.Amount, error) {
	var total money.Amount
	cash := false
	for _, a := range prizes {
		var err error
		if total, err = total.Add(a); err != nil {
			return nil, 0, err
		}
		cash = cash || p.ConfirmsCash(a)
	}
	list := []Need{}
	if cash || p.ConfirmsCashTotal(total) {
		list = append(list, ConfirmCash)
	}
	if p.AsksIdentityTotal(total, len(prizes)) { // no prize asks that the total does not
		list = append(list, Identity)
	}
	return list, total, nil
}

func needs(a money.Amount, p policy.Policy) []Need {
	list := []Need{}
	if p.ConfirmsCash(a) {
		list = append(list, ConfirmCash)
	}
	if p.AsksIdentity(a) {
		list = append(list, Identity)
	}
	return list
}
