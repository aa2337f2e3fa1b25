package validate

// Pack is what a terminal knows of a pack, from central's word and its own journal. It
// says nothing of prizes: nobody at a counter may learn what a pack still holds.
type Pack struct {
	GameCode string    `json:"game_code"` // as printed, padded
	Number   uint32    `json:"pack"`
	Known    bool      `json:"known"` // central has named it here
	State    PackState `json:"state"` // "" where it is not known
	Own      bool      `json:"own"`   // this terminal owns it
	Owner    string    `json:"owner"`
	Epoch    int64     `json:"epoch"` // owner epoch
	// Stolen and Returned are single tickets, in order and apart.
	Stolen   []TicketRun `json:"stolen_tickets"`
	Returned []TicketRun `json:"returned_tickets"`
}

// TicketRun is tickets of one pack, both ends included.
type TicketRun struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}

// Activatable tells whether the shop may put the pack on sale.
func (p Pack) Activatable() bool { return p.Own && p.State == PackDelivered }

// PackRun is packs of one game code that stand the same, both ends included.
type PackRun struct {
	GameCode string    `json:"game_code"`
	First    uint32    `json:"first"`
	Last     uint32    `json:"last"`
	State    PackState `json:"state"`
	Epoch    int64     `json:"epoch"`
}

// OfTicket is how one ticket of a pack stands, whose own state is "" where nothing is
// said of it apart from its pack: stolen wins over returned, and both over the pack's.
func (p PackState) OfTicket(own PackState) PackState {
	switch {
	case p == PackStolenNow || own == PackStolenNow:
		return PackStolenNow
	case own == PackReturn:
		return PackReturn
	}
	return p
}
