package validate

import "grattoir/validate/money"

// PackNote is what a public code says at a counter: how its pack, or its one ticket,
// stands here. It is no verdict, and says nothing of a prize.
type PackNote string

const (
	NotePackUnknown    PackNote = "pack-unknown"    // central has named no such pack here
	NotePackElsewhere  PackNote = "pack-elsewhere"  // another terminal owns it
	NotePackDelivered  PackNote = "pack-delivered"  // ours, and not on sale yet
	NotePackActive     PackNote = "pack-active"     // ours, and on sale
	NotePackSettled    PackNote = "pack-settled"    // ours, and settled
	NotePackReturned   PackNote = "pack-returned"   // it went back to the centre
	NotePackStolen     PackNote = "pack-stolen"     // it is reported stolen
	NoteTicketReturned PackNote = "ticket-returned" // this ticket went back, not its pack
	NoteTicketStolen   PackNote = "ticket-stolen"   // this ticket is reported stolen, not its pack
)

// PackNotes lists every note.
func PackNotes() []PackNote {
	return []PackNote{NotePackUnknown, NotePackElsewhere, NotePackDelivered, NotePackActive, NotePackSettled, NotePackReturned, NotePackStolen, NoteTicketReturned, NoteTicketStolen}
}

// Note is what the public code of one of the pack's tickets says.
func (p Pack) Note(ticket uint16) PackNote {
	has := func(runs []TicketRun) bool {
		for _, r := range runs {
			if r.First <= ticket && ticket <= r.Last {
				return true
			}
		}
		return false
	}
	switch {
	case p.State == PackStolenNow:
		return NotePackStolen
	case has(p.Stolen):
		return NoteTicketStolen
	case p.State == PackReturn:
		return NotePackReturned
	case has(p.Returned):
		return NoteTicketReturned
	case !p.Known || p.State == PackPrinted:
		return NotePackUnknown
	case !p.Own:
		return NotePackElsewhere
	}
	switch p.State {
	case PackDelivered:
		return NotePackDelivered
	case PackActive:
		return NotePackActive
	case PackSettled:
		return NotePackSettled
	}
	return NotePackUnknown // a state that this program does not know
}

// Code is the short mark of the note that is read out by phone.
func (n PackNote) Code() string { return packTexts[n].code }

// Technician says, in English, where the note comes from in the machine.
func (n PackNote) Technician() string { return packTexts[n].technician }

// Text gives the words for people. An unknown note reads as a pack that is not known.
func (n PackNote) Text(l money.Language) Text {
	t, ok := packTexts[n]
	if !ok {
		t = packTexts[NotePackUnknown]
	}
	if l == money.English {
		return t.en
	}
	return t.fr
}

var packTexts = map[PackNote]reasonText{
	NotePackUnknown: {"K1", "The feed has named no such pack here, or one that was delivered to nobody: look at the link, and at central pack list.",
		Text{"LIVRET INCONNU", "Le centre n'a pas annoncé ce\nlivret ici.", "Ne le vendez pas. Appelez\nl'assistance.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"UNKNOWN PACK", "The centre has not announced\nthis pack here.", "Do not sell it. Call support.", "Public code: it says nothing of a prize."}},
	NotePackElsewhere: {"K2", "The feed names another owner of this pack; only its owner may put it on sale.",
		Text{"AUTRE TERMINAL", "Ce livret est livré à un autre\nterminal.", "Ne le vendez pas ici.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"OTHER TERMINAL", "This pack was delivered to\nanother terminal.", "Do not sell it here.", "Public code: it says nothing of a prize."}},
	NotePackDelivered: {"K3", "The pack is this terminal's and was never activated: none of its tickets is paid before.",
		Text{"LIVRET REÇU", "Ce livret n'est pas encore en\nvente.", "Activez-le avant d'en vendre\nles tickets.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"PACK RECEIVED", "This pack is not on sale yet.", "Activate it before you sell\nits tickets.", "Public code: it says nothing of a prize."}},
	NotePackActive: {"K4", "The pack is this terminal's and active.",
		Text{"LIVRET EN VENTE", "Ce livret est activé.", "Vous pouvez en vendre les\ntickets.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"PACK ON SALE", "This pack is active.", "You may sell its tickets.", "Public code: it says nothing of a prize."}},
	NotePackSettled: {"K5", "Central has settled the pack: by hand, by its prizes paid, or by its days on sale. Its tickets are paid as before.",
		Text{"LIVRET RÉGLÉ", "Ce livret est réglé avec le\ncentre.", "Ses tickets se vendent et se\npaient comme avant.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"PACK SETTLED", "This pack is settled with the\ncentre.", "Its tickets are sold and paid\nas before.", "Public code: it says nothing of a prize."}},
	NotePackReturned: {"K6", "Central has taken the pack back.",
		Text{"LIVRET RENDU", "Ce livret a été rendu au\ncentre.", "Ne le vendez pas. Appelez\nl'assistance.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"PACK RETURNED", "This pack went back to the\ncentre.", "Do not sell it. Call support.", "Public code: it says nothing of a prize."}},
	NotePackStolen: {"K7", "The pack is reported stolen at central.",
		Text{"LIVRET BLOQUÉ", "Ce livret est déclaré volé.", "Ne le vendez pas. Appelez\nl'assistance.", "Ce ticket est bloqué."},
		Text{"PACK BLOCKED", "This pack is reported stolen.", "Do not sell it. Call support.", "This ticket is blocked."}},
	NoteTicketReturned: {"K8", "Central has taken this ticket back, not its whole pack.",
		Text{"TICKET RENDU", "Ce ticket a été rendu au\ncentre.", "Ne le vendez pas. Appelez\nl'assistance.", "Code public\u00a0: il ne dit rien d'un gain."},
		Text{"TICKET RETURNED", "This ticket went back to the\ncentre.", "Do not sell it. Call support.", "Public code: it says nothing of a prize."}},
	NoteTicketStolen: {"K9", "This ticket is reported stolen at central, not its whole pack.",
		Text{"TICKET BLOQUÉ", "Ce ticket est déclaré volé.", "Ne le vendez pas. Appelez\nl'assistance.", "Ce ticket est bloqué."},
		Text{"TICKET BLOCKED", "This ticket is reported stolen.", "Do not sell it. Call support.", "This ticket is blocked."}},
}
