package validate

import (
	"fmt"

	"grattoir/validate/money"
)

// Text is what people read about a reason, in one language.
type Text struct {
	Word   string // the verdict in one or two words, the biggest after the amount
	Clerk  string // what happened: at most two lines of 32 columns
	Next   string // what the clerk does now: at most two lines of 32 columns
	Player string // the same for the customer
}

// Code is the short mark of the reason that is printed and read out by phone.
func (r Reason) Code() string { return texts[r].code }

// Technician says, in English, where the reason comes from in the machine.
func (r Reason) Technician() string { return texts[r].technician }

// Text gives the words for people. An unknown reason reads as one that pays nothing.
func (r Reason) Text(l money.Language) Text {
	t, ok := texts[r]
	if !ok {
		t = texts[ManifestDamaged]
	}
	if l == money.English {
		return t.en
	}
	return t.fr
}

// TypeDigits asks for the n hidden digits of a code that was scanned without them. It is
// no reason: nothing is decided yet.
func TypeDigits(n int, l money.Language) Text {
	if l == money.English {
		return Text{"TYPE THE DIGITS", fmt.Sprintf("This code has %d more digits\nunder the coating.", n), fmt.Sprintf("Scratch, then type the %d hidden\ndigits.", n), "The hidden digits are being typed. Nothing is decided."}
	}
	return Text{"TAPEZ LES CHIFFRES", fmt.Sprintf("Ce code a %d chiffres de plus\nsous la couche à gratter.", n), fmt.Sprintf("Grattez, puis tapez les %d\nchiffres cachés.", n), "Les chiffres cachés sont saisis. Rien n'est décidé."}
}

// Reasons lists every reason in the order in which they win.
func Reasons() []Reason {
	return []Reason{CodeMisread, WaitingForCentral, TerminalSuspended, LedgerNotWritable, GameUnknown, BlockNotHere,
		TicketNotInBlock, ManifestDamaged, TooManyAttempts, NotAuthentic, DemonstrationBlock, GameSuspended,
		PackStolen, PackReturned, PackNotActive, TicketVoid, AlreadyPaidHere, AlreadyPaidElsewhere, NotAWinner,
		ClaimPeriodOver, CreditedToAccount, Misprint, ClockNotTrusted, PrizeNotMoney, AboveShopLimit, NeedsCentral,
		OwnerSilent, AllowanceSpent, PrinterNotReady, Winner}
}

type reasonText struct {
	code       string
	technician string
	fr, en     Text
}

var texts = map[Reason]reasonText{
	CodeMisread: {"V1", "The record from the scanner is no ticket code: length, digit, barcode kind or check digits. See the log for the place.",
		Text{"À RESCANNER", "Code mal lu.", "Scannez le code sous la case,\nà plat et entier.", "Le code n'a pas été lu. Rien n'est décidé."},
		Text{"SCAN AGAIN", "The code was misread.", "Scan the code under the box,\nflat and whole.", "The code was not read. Nothing is decided."}},
	WaitingForCentral: {"V2", "An intent is durable and central has not answered. The same claim id is asked again until it does.",
		Text{"PATIENTEZ", "Le centre n'a pas répondu.\nNe payez pas encore.", "Gardez le ticket, attendez\nla réponse.", "Le centre est interrogé. Patientez."},
		Text{"WAIT", "The centre has not answered.\nDo not pay yet.", "Keep the ticket and wait\nfor the answer.", "The centre is being asked. Please wait."}},
	TerminalSuspended: {"V3", "Central suspended this terminal. The suspension arrives and ends by the status feed.",
		Text{"TERMINAL SUSPENDU", "Le centre a suspendu ce\nterminal.", "Rendez le ticket, appelez\nl'assistance.", "Ce terminal est suspendu. Gardez votre ticket."},
		Text{"SUSPENDED", "The centre suspended this\nterminal.", "Give the ticket back and call\nsupport.", "This terminal is suspended. Keep your ticket."}},
	LedgerNotWritable: {"V4", "The ledger cannot commit: disk full, read-only or damaged. Run terminalctl status and terminalctl journal verify.",
		Text{"PAIEMENT IMPOSSIBLE", "Le terminal ne peut pas\nenregistrer.", "Ne payez pas. Rendez le ticket,\nappelez l'assistance.", "Le paiement n'est pas possible ici. Gardez votre ticket."},
		Text{"CANNOT PAY", "The terminal cannot record\npayments.", "Do not pay. Give the ticket\nback, call support.", "Payment is not possible here. Keep your ticket."}},
	GameUnknown: {"V5", "No manifest or catalogue entry here has this game code. Check that the snapshot is current.",
		Text{"JEU INCONNU", "Ce terminal ne connaît pas\nce jeu.", "Rendez le ticket, appelez\nl'assistance.", "Jeu inconnu ici. Gardez votre ticket."},
		Text{"UNKNOWN GAME", "This terminal does not know\nthis game.", "Give the ticket back and call\nsupport.", "Unknown game here. Keep your ticket."}},
	BlockNotHere: {"V6", "The game code is known, but no manifest here covers this pack number. Fetch the block.",
		Text{"BLOC ABSENT", "Les données de ce livret ne\nsont pas ici.", "Rendez le ticket\u00a0; réessayez\naprès la mise à jour.", "Ce ticket ne peut pas être vérifié ici. Gardez-le."},
		Text{"BLOCK NOT HERE", "The data of this pack is not\non this terminal.", "Give the ticket back; try\nagain after the update.", "This ticket cannot be checked here. Keep it."}},
	TicketNotInBlock: {"V7", "The pack is covered, the ticket number or the layout is not. A printed code cannot say this by a misread.",
		Text{"TICKET INCONNU", "Ce numéro n'existe pas dans\nson livret.", "Rendez le ticket, signalez-le\nau centre.", "Numéro inconnu. Adressez-vous au centre de paiement."},
		Text{"UNKNOWN TICKET", "This number does not exist in\nits pack.", "Give the ticket back, report\nit to the centre.", "Unknown number. Ask the payment centre."}},
	ManifestDamaged: {"V8", "The block's file does not match its signed header. Run terminalctl manifest verify, fetch the file again, check the card.",
		Text{"DONNÉES ABÎMÉES", "Les données de ce bloc sont\nendommagées ici.", "Rendez le ticket, appelez\nl'assistance.", "Ce ticket ne peut pas être vérifié ici. Gardez-le."},
		Text{"DATA DAMAGED", "The data of this block is\ndamaged here.", "Give the ticket back and call\nsupport.", "This ticket cannot be checked here. Keep it."}},
	TooManyAttempts: {"V9", "The limit of failed secrets for this ticket is reached. It is durable; only central clears it.",
		Text{"TICKET BLOQUÉ", "Trop d'essais faux pour ce\nticket.", "Rendez le ticket\u00a0: centre de\npaiement seulement.", "Trop d'essais. Adressez-vous au centre de paiement."},
		Text{"TICKET LOCKED", "Too many wrong tries for this\nticket.", "Give the ticket back: payment\ncentre only.", "Too many tries. Ask the payment centre."}},
	NotAuthentic: {"V10", "The secret opens no tag of this ticket. The check digits agree, so this is no misread: forged, or not our print.",
		Text{"NON AUTHENTIQUE", "Le code caché ne correspond\npas à ce ticket.", "Ne payez pas. Rendez le ticket,\nsignalez-le.", "Code non reconnu. Adressez-vous au centre de paiement."},
		Text{"NOT AUTHENTIC", "The hidden code does not belong\nto this ticket.", "Do not pay. Give the ticket\nback and report it.", "Code not recognised. Ask the payment centre."}},
	DemonstrationBlock: {"V11", "The manifest is scaled and accept_scaled is off in the configuration.",
		Text{"DÉMONSTRATION", "Ticket de démonstration, sans\nvaleur.", "Ne payez pas.", "Ticket de démonstration, sans valeur."},
		Text{"DEMONSTRATION", "Demonstration ticket of no\nvalue.", "Do not pay.", "Demonstration ticket of no value."}},
	GameSuspended: {"V12", "Central suspended the game. The suspension arrives and ends by the status feed.",
		Text{"JEU SUSPENDU", "Le centre a suspendu ce jeu.", "Rendez le ticket\u00a0; le joueur\npeut le garder.", "Jeu suspendu pour l'instant. Gardez votre ticket."},
		Text{"GAME SUSPENDED", "The centre suspended this game.", "Give the ticket back; the\nplayer may keep it.", "Game suspended for now. Keep your ticket."}},
	PackStolen: {"V13", "The pack, or the range with this ticket, is reported stolen. The attempt is reported to central.",
		Text{"TICKET BLOQUÉ", "Ce ticket est déclaré volé.", "Ne payez pas. Appelez\nl'assistance.", "Ce ticket est bloqué."},
		Text{"TICKET BLOCKED", "This ticket is reported stolen.", "Do not pay. Call support.", "This ticket is blocked."}},
	PackReturned: {"V14", "The pack went back to central and is no longer on sale.",
		Text{"LIVRET RENDU", "Ce livret a été rendu au\ncentre.", "Rendez le ticket, appelez\nl'assistance.", "Ce ticket ne peut pas être payé ici. Gardez-le."},
		Text{"PACK RETURNED", "This pack went back to the\ncentre.", "Give the ticket back and call\nsupport.", "This ticket cannot be paid here. Keep it."}},
	PackNotActive: {"V15", "The pack is not active at central, or the activation has not arrived here.",
		Text{"LIVRET NON ACTIVÉ", "Ce livret n'est pas activé.", "Rendez le ticket\u00a0; activez le\nlivret s'il est vendu.", "Ticket non enregistré. Gardez-le."},
		Text{"PACK NOT ACTIVE", "This pack is not active.", "Give the ticket back; activate\nthe pack if it is on sale.", "Ticket not registered. Keep it."}},
	TicketVoid: {"V16", "The clerk entered that the void box was uncovered before the ticket was presented.",
		Text{"TICKET NUL", "La case «\u00a0nul si découvert\u00a0»\nétait grattée.", "Ne payez pas. Rendez le\nticket.", "Case «\u00a0nul si découvert\u00a0» grattée\u00a0: ticket nul."},
		Text{"TICKET VOID", "The void box was uncovered\nbefore.", "Do not pay. Give the ticket\nback.", "The void box was uncovered: the ticket is void."}},
	AlreadyPaidHere: {"V17", "The ledger of this terminal holds a claim of this ticket.",
		Text{"DÉJÀ PAYÉ ICI", "Ce ticket a déjà été payé sur\nce terminal.", "Ne payez pas. Montrez la date\nau joueur.", "Ce ticket a déjà été payé ici."},
		Text{"ALREADY PAID HERE", "This ticket was paid on this\nterminal before.", "Do not pay. Show the player\nthe date.", "This ticket has been paid here."}},
	AlreadyPaidElsewhere: {"V18", "Central's feed names a claim of this ticket by another terminal.",
		Text{"DÉJÀ PAYÉ", "Ce ticket a été payé dans un\nautre point de vente.", "Ne payez pas. Montrez la date\nau joueur.", "Ce ticket a déjà été payé ailleurs."},
		Text{"ALREADY PAID", "This ticket was paid in another\nshop.", "Do not pay. Show the player\nthe date.", "This ticket has been paid elsewhere."}},
	NotAWinner: {"V19", "The secret opens tier 0: proven loser.",
		Text{"PERDANT", "Ce ticket ne gagne pas.", "Rendez le ticket au joueur.", "Ce ticket ne gagne pas."},
		Text{"NOT A WINNER", "This ticket wins nothing.", "Give the ticket back to the\nplayer.", "This ticket wins nothing."}},
	ClaimPeriodOver: {"V20", "The claim period after the emission's closing notice has ended, by trusted time.",
		Text{"DÉLAI DÉPASSÉ", "Le délai de paiement est\ndépassé.", "Ne payez pas. Rendez le\nticket.", "Le délai de paiement est dépassé."},
		Text{"TOO LATE", "The claim period is over.", "Do not pay. Give the ticket\nback.", "The claim period is over."}},
	CreditedToAccount: {"V21", "The game is played on the internet and pays to the player's account.",
		Text{"CRÉDITÉ EN LIGNE", "Jeu en ligne\u00a0: le gain va sur\nle compte du joueur.", "Ne payez pas.", "Le gain est crédité sur votre compte."},
		Text{"PAID TO ACCOUNT", "Internet game: the prize goes\nto the player's account.", "Do not pay.", "The prize is credited to your account."}},
	Misprint: {"V22", "The clerk entered a misprint: refund or exchange only.",
		Text{"DÉFAUT D'IMPRESSION", "Ticket mal imprimé.", "Remboursez ou échangez selon\nla consigne.", "Défaut d'impression\u00a0: remboursement ou échange."},
		Text{"MISPRINT", "The ticket is misprinted.", "Refund or exchange it, as\ninstructed.", "Misprint: refund or exchange."}},
	ClockNotTrusted: {"V23", "The emission is closed and no trusted time is known since boot, so the claim period cannot be judged.",
		Text{"HEURE INCONNUE", "L'heure du terminal n'est pas\nsûre.", "Reliez le terminal au réseau,\npuis rescannez.", "Ce ticket sera vérifié plus tard. Gardez-le."},
		Text{"TIME UNKNOWN", "The terminal's time is not\ncertain.", "Connect the terminal to the\nnetwork, then scan again.", "This ticket is checked later. Keep it."}},
	PrizeNotMoney: {"V24", "The tier's prize is not money.",
		Text{"CENTRE DE PAIEMENT", "Ce lot n'est pas une somme\nd'argent.", "Envoyez le joueur au centre\nde paiement.", "Vous avez gagné un lot. Allez au centre de paiement."},
		Text{"PAYMENT CENTRE", "This prize is not money.", "Send the player to the\npayment centre.", "You won a prize. Go to the payment centre."}},
	AboveShopLimit: {"V25", "The prize is above the policy's shop limit.",
		Text{"CENTRE DE PAIEMENT", "Gain au-dessus de la limite du\npoint de vente.", "Rendez le ticket, envoyez le\njoueur au centre.", "Gagnant. Ce lot est payé au centre de paiement."},
		Text{"PAYMENT CENTRE", "The prize is above this shop's\nlimit.", "Give the ticket back; the\npayment centre pays.", "A winner. The payment centre pays this prize."}},
	NeedsCentral: {"V26", "Central must allow it: another terminal owns the pack, central decides about this ticket, or the code's secret is short and the prize above weak_limit_minor.",
		Text{"ACCORD DU CENTRE", "Seul le centre peut autoriser\nce paiement.", "Demandez au centre, ou rendez\nle ticket.", "Seul le centre peut autoriser ce paiement."},
		Text{"CENTRE NEEDED", "Only the centre can allow this\npayment.", "Ask the centre, or give the\nticket back.", "Only the centre can allow this payment."}},
	OwnerSilent: {"V27", "Central asked the pack's owner for a hold and got no answer.",
		Text{"RÉESSAYEZ PLUS TARD", "Le point de vente de ce livret\nne répond pas.", "Redemandez dans 30 secondes,\nou rendez le ticket.", "Ce ticket sera payé plus tard. Gardez-le."},
		Text{"TRY LATER", "The shop that owns this pack\ndoes not answer.", "Ask again in 30 seconds, or\ngive the ticket back.", "This ticket is paid later. Keep it."}},
	AllowanceSpent: {"V28", "The unsent claims or their money have reached the allowance. It is given back by central's acknowledgement.",
		Text{"PLAFOND ATTEINT", "Plafond sans réseau atteint.", "Reliez le terminal au réseau,\npuis rescannez.", "Ce ticket sera payé plus tard. Gardez-le."},
		Text{"LIMIT REACHED", "The limit without network is\nreached.", "Connect the terminal to the\nnetwork, then scan again.", "This ticket is paid later. Keep it."}},
	PrinterNotReady: {"V29", "The printer cannot print a slip now; see its own fault.",
		Text{"IMPRIMANTE", "L'imprimante n'est pas prête.", "Remettez-la en état, puis\npayez de nouveau.", "Gagnant. L'imprimante n'est pas prête."},
		Text{"PRINTER", "The printer is not ready.", "Put it right, then pay again.", "A winner. The printer is not ready."}},
	Winner: {"V0", "The secret opens a winning tier and every rule allows the payment.",
		Text{"GAGNANT", "Ce ticket gagne.", "Payez, puis remettez le reçu\nau joueur.", "Ce ticket gagne."},
		Text{"WINNER", "This ticket wins.", "Pay, then hand the slip to\nthe player.", "This ticket wins."}},
}
