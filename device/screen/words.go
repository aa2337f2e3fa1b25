package screen

import (
	"fmt"
	"strings"
	"time"

	"grattoir/validate"
	"grattoir/validate/money"
)

// defaultNotice is the sentence that the arrêté of 29 July 2022 (JO of 2 August 2022)
// fixes. It may not be altered or translated.
const defaultNotice = "Les jeux d'argent et de hasard peuvent être dangereux : pertes d'argent, conflits familiaux, addiction… " +
	"Retrouvez nos conseils sur joueurs-info-service.fr (09 74 75 13 13 - appel non surtaxé)"

// words are what the page says in one language besides the reasons' own texts. A test
// refuses an empty field.
type words struct {
	Lang      string // for the lang attribute
	Other     string // the button that switches to the other language
	OtherLang string
	Title     string

	Idle, IdlePlayer    string
	NoScanner           string // in the place of Idle
	Minors, MinorsProof string
	Demonstration       string
	Training            string // nothing is recorded
	TrainedWord         string
	TrainedNext         string
	OnDuty, NoOneOnDuty string
	LockedDuty          string
	SignOnFirst         string
	BatchFirst, InBatch string
	// A batch that is paid: how many prizes and how much, and what the clerk does with it.
	BatchPaid, BatchPaidNext string
	UnlockFirst              string // of a counter that is locked, by whom
	Silence                  string // the terminal does not answer
	SilencePlayer            string
	NoScript                 string

	Pay, Next, Reprint     string
	Ask                    string // central, for a payment that it alone can allow
	CashAsk, CashYes       string
	CashNo, CashTake       string
	Identity, IdentityNext string
	// Messages of central's.
	FromCentre, ReadIt, ReadMore, Read, ReadFirst string
	// A pack that is put on sale.
	Activate, ActivateAsk        string
	ActivateWhich, ActivateCheck string // which pack, and what to look at before
	ActivateYes, ActivateSignOn  string

	PaidWord, PaidNext, PaidPlayer string
	CopyNext                       string
	Slip, Copy                     string
	Printing, Held, Unknown        string
	Sent, Consumed, Printed        string
	Ticket, Won                    string
	Earlier, Terminal, Shop, Entry string
	AsOf                           string
	NoneUnsent, OneUnsent, Unsent  string
	Alone, AloneOne, AloneMany     string // the same for a terminal that has no central
	Data, NoData                   string
	PrinterReady, ScannerReady     string
	ClockDoubt, ClockWrong         string
	ToReprint, Since               string
	BarLabel, LineLabel            string

	day, dayYear string // layouts of package time, the month as a number
}

func wordsOf(l money.Language) *words {
	if l == money.English {
		return &english
	}
	return &french
}

// french and english are never written to.
var french = words{
	Lang: "fr", Other: "English", OtherLang: "en",
	Title: "Validation des tickets",

	Idle: "Scannez un ticket", IdlePlayer: "Faites vérifier votre ticket",
	NoScanner: "Lecteur en panne",
	Minors:    "Interdit aux moins de 18 ans", MinorsProof: "Pièce d'identité en cas de doute.",
	Demonstration: "DÉMONSTRATION : tickets sans valeur",
	Training:      "FORMATION : rien n'est enregistré", TrainedWord: "FORMATION", TrainedNext: "Paiement simulé : ne remettez pas d'argent.",
	OnDuty: "En service : %s", NoOneOnDuty: "Personne en service", LockedDuty: "Verrouillé : code de %s attendu",
	SignOnFirst: "Identifiez-vous, puis payez.", UnlockFirst: "Verrouillé : tapez le code de %s, puis payez.", BatchFirst: "Ce ticket est dans le lot : payez le lot.", InBatch: "Lot : %d tickets, %s",
	BatchPaid: "Lot payé, gains : %d, total %s", BatchPaidNext: "Lot payé : remettez %s en tout, et tous les reçus.",
	Silence:       "Le terminal ne répond pas. Ne payez rien d'après cet écran ; attendez ou appelez l'assistance.",
	SilencePlayer: "Cet écran n'est plus à jour.",
	NoScript:      "Cette page a besoin de JavaScript pour montrer les tickets scannés.",

	Pay: "PAYER", Next: "Ticket suivant", Reprint: "RÉIMPRIMER", Ask: "DEMANDER AU CENTRE",
	CashAsk: "La caisse suffit-elle ?", CashYes: "OUI, PAYER", CashNo: "NON, RETOUR",
	CashTake: "Comptez l'argent avant de confirmer.",
	Identity: "Identité du joueur obligatoire : ce terminal ne peut pas la relever.", IdentityNext: "Ne payez pas. Envoyez le joueur au centre de paiement.",

	FromCentre: "MESSAGE DU CENTRE", ReadIt: "Lisez-le, puis appuyez sur LU.", ReadMore: "Lisez-le, puis appuyez sur LU. %d de plus à lire.", Read: "LU", ReadFirst: "Lisez ce message du centre, puis payez.",
	Activate: "ACTIVER LE LIVRET", ActivateAsk: "ACTIVER CE LIVRET ?", ActivateWhich: "Livret %s : ses tickets seront en vente et payables.",
	ActivateCheck: "Comparez le numéro avec celui du livret.", ActivateYes: "OUI, ACTIVER", ActivateSignOn: "Identifiez-vous, puis activez-le.",

	PaidWord: "PAYÉ", PaidNext: "Remettez l'argent et le reçu au joueur.", PaidPlayer: "Payé. Demandez votre argent et votre reçu.",
	CopyNext: "Duplicata : ne payez pas.",
	Slip:     "Aperçu du reçu", Copy: "DUPLICATA %d",
	Printing: "Impression du reçu en cours…", Held: "Reçu en attente, rien n'est perdu.", Unknown: "Reçu peut-être imprimé : regardez l'imprimante.",
	Sent: "Reçu envoyé à l'imprimante.", Consumed: "Reçu imprimé.", Printed: "Reçu imprimé.",
	Ticket: "Ticket", Won: "Gain : %s",
	Earlier: "Payé le %s", Terminal: "terminal", Shop: "point de vente", Entry: "registre n°", AsOf: "information du %s",
	NoneUnsent: "Tout est envoyé au centre", OneUnsent: "1 paiement non envoyé", Unsent: "%d paiements non envoyés",
	Alone: "Terminal autonome", AloneOne: "Terminal autonome : 1 paiement", AloneMany: "Terminal autonome : %d paiements",
	Data: "Données du %s", NoData: "Aucune donnée de jeu",
	PrinterReady: "Imprimante prête", ScannerReady: "Lecteur prêt",
	ClockDoubt: "heure non vérifiée", ClockWrong: "heure fausse",
	ToReprint: "Reçu à réimprimer : %s", Since: "depuis le %s",
	BarLabel: "Terminal", LineLabel: "État du terminal",
	day: "02/01 à 15:04", dayYear: "02/01/2006 à 15:04",
}

var english = words{
	Lang: "en", Other: "Français", OtherLang: "fr",
	Title: "Ticket validation",

	Idle: "Scan a ticket", IdlePlayer: "Have your ticket checked",
	NoScanner: "Scanner out of order",
	Minors:    "No play under 18", MinorsProof: "Ask for proof of age when in doubt.",
	Demonstration: "DEMONSTRATION: tickets of no value",
	Training:      "TRAINING: nothing is recorded", TrainedWord: "TRAINING", TrainedNext: "Played payment: hand out no money.",
	OnDuty: "On duty: %s", NoOneOnDuty: "Nobody on duty", LockedDuty: "Locked: waits for the PIN of %s",
	SignOnFirst: "Sign on, then pay.", UnlockFirst: "Locked: type the PIN of %s, then pay.", BatchFirst: "This ticket is in the batch: pay the batch.", InBatch: "Batch: %d tickets, %s",
	BatchPaid: "Batch paid, prizes: %d, total %s", BatchPaidNext: "Batch paid: hand over %s in all, and all receipts.",
	Silence:       "The terminal does not answer. Pay nothing by this screen; wait, or call support.",
	SilencePlayer: "This screen is out of date.",
	NoScript:      "This page needs JavaScript to show scanned tickets.",

	Pay: "PAY", Next: "Next ticket", Reprint: "REPRINT", Ask: "ASK THE CENTRE",
	CashAsk: "Is there enough in the till?", CashYes: "YES, PAY", CashNo: "NO, BACK",
	CashTake: "Count the money before you confirm.",
	Identity: "The player's identity is required: this terminal cannot take it.", IdentityNext: "Do not pay. Send the player to the payment centre.",

	FromCentre: "MESSAGE FROM THE CENTRE", ReadIt: "Read it, then press READ.", ReadMore: "Read it, then press READ. %d more to read.", Read: "READ", ReadFirst: "Read this message from the centre, then pay.",
	Activate: "ACTIVATE THE PACK", ActivateAsk: "ACTIVATE THIS PACK?", ActivateWhich: "Pack %s: its tickets will be on sale and can be paid.",
	ActivateCheck: "Compare the number with the one on the pack.", ActivateYes: "YES, ACTIVATE", ActivateSignOn: "Sign on, then activate it.",

	PaidWord: "PAID", PaidNext: "Hand the money and the slip to the player.", PaidPlayer: "Paid. Ask for your money and your slip.",
	CopyNext: "A copy: do not pay.",
	Slip:     "The slip", Copy: "DUPLICATA %d",
	Printing: "The slip is being printed…", Held: "The slip waits, nothing is lost.", Unknown: "The slip may be printed: look at the printer.",
	Sent: "The slip was sent to the printer.", Consumed: "The slip is printed.", Printed: "The slip is printed.",
	Ticket: "Ticket", Won: "Prize: %s",
	Earlier: "Paid on %s", Terminal: "terminal", Shop: "shop", Entry: "ledger n°", AsOf: "known as of %s",
	NoneUnsent: "Everything is sent to the centre", OneUnsent: "1 payment not sent", Unsent: "%d payments not sent",
	Alone: "Stand-alone terminal", AloneOne: "Stand-alone terminal: 1 payment", AloneMany: "Stand-alone terminal: %d payments",
	Data: "Data of %s", NoData: "No game data",
	PrinterReady: "Printer ready", ScannerReady: "Scanner ready",
	ClockDoubt: "time not verified", ClockWrong: "wrong time",
	ToReprint: "Slip to reprint: %s", Since: "since %s",
	BarLabel: "Terminal", LineLabel: "State of the terminal",
	day: "2 Jan, 15:04", dayYear: "2 Jan 2006, 15:04",
}

// moment writes a time for people; the year stands where it is not the current one.
func (w *words) moment(t, now time.Time, zone *time.Location) string {
	t, now = t.In(zone), now.In(zone)
	if t.Year() != now.Year() {
		return t.Format(w.dayYear)
	}
	return t.Format(w.day)
}

// unsent says how many claims central has not got, and their money.
func (w *words) unsent(u validate.Unsent, alone bool, currency string, l money.Language, now time.Time, zone *time.Location) string {
	none, one, many := w.NoneUnsent, w.OneUnsent, w.Unsent
	if alone {
		none, one, many = w.Alone, w.AloneOne, w.AloneMany
	}
	sum := " (" + money.Text(u.Money, currency, l, money.Screen) + ")"
	if !alone && !u.Oldest.IsZero() {
		sum += " " + fmt.Sprintf(w.Since, w.moment(u.Oldest, now, zone))
	}
	switch u.Claims {
	case 0:
		return none
	case 1:
		return one + sum
	}
	return fmt.Sprintf(many, u.Claims) + sum
}

// slipState says how far the paper is, and whether another copy may be asked for.
func (w *words) slipState(p validate.PrintState) (text string, again bool) {
	switch p {
	case validate.Held:
		return w.Held, false
	case validate.Unknown:
		return w.Unknown, true
	case validate.Sent:
		return w.Sent, true
	case validate.Consumed:
		return w.Consumed, true
	case validate.Printed:
		return w.Printed, true
	}
	return w.Printing, false
}

// oneLine joins a text that was broken for 32 columns; the page breaks it anew.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
