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

// words are what the pages say in one language besides the texts of package validate. Each
// text is a method that names both languages in one call, with its arguments: one that
// lacks a language, or is not there at all, does not compile.
type words struct{ lang money.Language }

func wordsOf(l money.Language) words {
	if l != money.English {
		l = money.French
	}
	return words{l}
}

func (w words) in(fr, en string) string {
	if w.lang == money.English {
		return en
	}
	return bound.Replace(fr)
}

// bound keeps a French sign on the line of its word: a line that begins with a colon, or ends
// with n°, looks broken.
var bound = strings.NewReplacer(" :", "\u00a0:", " ;", "\u00a0;", " ?", "\u00a0?", " !", "\u00a0!", "« ", "«\u00a0", " »", "\u00a0»", "n° ", "n°\u00a0")

// Lang is for the lang attribute; Other names the button that switches to OtherLang.
func (w words) Lang() string      { return string(w.lang) }
func (w words) Other() string     { return w.in("English", "Français") }
func (w words) OtherLang() string { return w.in("en", "fr") }

func (w words) Title() string { return w.in("Validation des tickets", "Ticket validation") }
func (w words) Idle() string  { return w.in("Scannez un ticket", "Scan a ticket") }
func (w words) IdlePlayer() string {
	return w.in("Faites vérifier votre ticket", "Have your ticket checked")
}
func (w words) NoScanner() string { return w.in("Lecteur en panne", "Scanner out of order") }
func (w words) Minors() string    { return w.in("Interdit aux moins de 18 ans", "No play under 18") }
func (w words) MinorsProof() string {
	return w.in("Pièce d'identité en cas de doute.", "Ask for proof of age when in doubt.")
}
func (w words) Demonstration() string {
	return w.in("DÉMONSTRATION : tickets sans valeur", "DEMONSTRATION: tickets of no value")
}
func (w words) Training() string {
	return w.in("FORMATION : rien n'est enregistré", "TRAINING: nothing is recorded")
}
func (w words) TrainedWord() string { return w.in("FORMATION", "TRAINING") }
func (w words) TrainedNext() string {
	return w.in("Paiement simulé : ne remettez pas d'argent.", "Played payment: hand out no money.")
}
func (w words) OnDuty(who string) string {
	return fmt.Sprintf(w.in("En service : %s", "On duty: %s"), who)
}
func (w words) NoOneOnDuty() string { return w.in("Personne en service", "Nobody on duty") }
func (w words) LockedDuty(who string) string {
	return fmt.Sprintf(w.in("Verrouillé : code de %s attendu", "Locked: waits for the PIN of %s"), who)
}
func (w words) SignOnFirst() string {
	return w.in("Identifiez-vous, puis payez.", "Sign on, then pay.")
}
func (w words) UnlockFirst(who string) string {
	return fmt.Sprintf(w.in("Verrouillé : tapez le code de %s, puis payez.", "Locked: type the PIN of %s, then pay."), who)
}
func (w words) BatchFirst() string {
	return w.in("Ce ticket est dans le lot : payez le lot.", "This ticket is in the batch: pay the batch.")
}
func (w words) InBatch(n int, total string) string {
	return fmt.Sprintf(w.in("Lot : %d tickets, %s", "Batch: %d tickets, %s"), n, total)
}
func (w words) BatchPaid(prizes int, total string) string {
	return fmt.Sprintf(w.in("Lot payé, gains : %d, total %s", "Batch paid, prizes: %d, total %s"), prizes, total)
}
func (w words) BatchPaidNext(total string) string {
	return fmt.Sprintf(w.in("Lot payé : remettez %s en tout, et tous les reçus.", "Batch paid: hand over %s in all, and all receipts."), total)
}
func (w words) Silence() string {
	return w.in("Le terminal ne répond pas. Ne payez rien d'après cet écran ; attendez ou appelez l'assistance.", "The terminal does not answer. Pay nothing by this screen; wait, or call support.")
}
func (w words) SilencePlayer() string {
	return w.in("Cet écran n'est plus à jour.", "This screen is out of date.")
}
func (w words) NoScript() string {
	return w.in("Cette page a besoin de JavaScript pour montrer les tickets scannés.", "This page needs JavaScript to show scanned tickets.")
}
func (w words) Pay() string     { return w.in("PAYER", "PAY") }
func (w words) Next() string    { return w.in("Ticket suivant", "Next ticket") }
func (w words) Reprint() string { return w.in("RÉIMPRIMER", "REPRINT") }
func (w words) Ask() string     { return w.in("DEMANDER AU CENTRE", "ASK THE CENTRE") }
func (w words) CashAsk() string {
	return w.in("La caisse suffit-elle ?", "Is there enough in the till?")
}
func (w words) CashYes() string { return w.in("OUI, PAYER", "YES, PAY") }
func (w words) CashNo() string  { return w.in("NON, RETOUR", "NO, BACK") }
func (w words) CashTake() string {
	return w.in("Comptez l'argent avant de confirmer.", "Count the money before you confirm.")
}
func (w words) Identity() string {
	return w.in("Identité du joueur obligatoire : ce terminal ne peut pas la relever.", "The player's identity is required: this terminal cannot take it.")
}
func (w words) IdentityNext() string {
	return w.in("Ne payez pas. Envoyez le joueur au centre de paiement.", "Do not pay. Send the player to the payment centre.")
}
func (w words) FromCentre() string { return w.in("MESSAGE DU CENTRE", "MESSAGE FROM THE CENTRE") }
func (w words) ReadIt() string {
	return w.in("Lisez-le, puis appuyez sur LU.", "Read it, then press READ.")
}
func (w words) ReadMore(n int) string {
	return fmt.Sprintf(w.in("Lisez-le, puis appuyez sur LU. %d de plus à lire.", "Read it, then press READ. %d more to read."), n)
}
func (w words) Read() string { return w.in("LU", "READ") }
func (w words) ReadFirst() string {
	return w.in("Lisez ce message du centre, puis payez.", "Read this message from the centre, then pay.")
}
func (w words) Activate() string    { return w.in("ACTIVER LE LIVRET", "ACTIVATE THE PACK") }
func (w words) ActivateAsk() string { return w.in("ACTIVER CE LIVRET ?", "ACTIVATE THIS PACK?") }
func (w words) ActivateWhich(pack string) string {
	return fmt.Sprintf(w.in("Livret %s : ses tickets seront en vente et payables.", "Pack %s: its tickets will be on sale and can be paid."), pack)
}
func (w words) ActivateCheck() string {
	return w.in("Comparez le numéro avec celui du livret.", "Compare the number with the one on the pack.")
}
func (w words) ActivateYes() string { return w.in("OUI, ACTIVER", "YES, ACTIVATE") }
func (w words) ActivateSignOn() string {
	return w.in("Identifiez-vous, puis activez-le.", "Sign on, then activate it.")
}
func (w words) PaidWord() string { return w.in("PAYÉ", "PAID") }
func (w words) PaidNext() string {
	return w.in("Remettez l'argent et le reçu au joueur.", "Hand the money and the slip to the player.")
}
func (w words) PaidPlayer() string {
	return w.in("Payé. Demandez votre argent et votre reçu.", "Paid. Ask for your money and your slip.")
}
func (w words) CopyNext() string  { return w.in("Duplicata : ne payez pas.", "A copy: do not pay.") }
func (w words) Slip() string      { return w.in("Aperçu du reçu", "The slip") }
func (w words) Copy(n int) string { return fmt.Sprintf(w.in("DUPLICATA %d", "DUPLICATA %d"), n) }
func (w words) Printing() string {
	return w.in("Impression du reçu en cours…", "The slip is being printed…")
}
func (w words) Held() string {
	return w.in("Reçu en attente, rien n'est perdu.", "The slip waits, nothing is lost.")
}
func (w words) Unknown() string {
	return w.in("Reçu peut-être imprimé : regardez l'imprimante.", "The slip may be printed: look at the printer.")
}
func (w words) Sent() string {
	return w.in("Reçu envoyé à l'imprimante.", "The slip was sent to the printer.")
}
func (w words) Consumed() string         { return w.in("Reçu imprimé.", "The slip is printed.") }
func (w words) Printed() string          { return w.in("Reçu imprimé.", "The slip is printed.") }
func (w words) Ticket() string           { return w.in("Ticket", "Ticket") }
func (w words) Won(amount string) string { return fmt.Sprintf(w.in("Gain : %s", "Prize: %s"), amount) }
func (w words) Earlier(moment string) string {
	return fmt.Sprintf(w.in("Payé le %s", "Paid on %s"), moment)
}
func (w words) Terminal() string { return w.in("terminal", "terminal") }
func (w words) Shop() string     { return w.in("point de vente", "shop") }
func (w words) Entry() string    { return w.in("registre n°", "ledger n°") }

// On stands between what was done and when.
func (w words) On() string { return w.in(" le ", " on ") }
func (w words) AsOf(moment string) string {
	return fmt.Sprintf(w.in("information du %s", "known as of %s"), moment)
}
func (w words) NoneUnsent() string {
	return w.in("Tout est envoyé au centre", "Everything is sent to the centre")
}
func (w words) OneUnsent() string { return w.in("1 paiement non envoyé", "1 payment not sent") }
func (w words) Unsent(n int64) string {
	return fmt.Sprintf(w.in("%d paiements non envoyés", "%d payments not sent"), n)
}
func (w words) Alone() string { return w.in("Terminal autonome", "Stand-alone terminal") }
func (w words) AloneOne() string {
	return w.in("Terminal autonome : 1 paiement", "Stand-alone terminal: 1 payment")
}
func (w words) AloneMany(n int64) string {
	return fmt.Sprintf(w.in("Terminal autonome : %d paiements", "Stand-alone terminal: %d payments"), n)
}
func (w words) Data(moment string) string {
	return fmt.Sprintf(w.in("Données du %s", "Data of %s"), moment)
}
func (w words) NoData() string       { return w.in("Aucune donnée de jeu", "No game data") }
func (w words) PrinterReady() string { return w.in("Imprimante prête", "Printer ready") }
func (w words) ScannerReady() string { return w.in("Lecteur prêt", "Scanner ready") }
func (w words) ClockDoubt() string   { return w.in("heure non vérifiée", "time not verified") }
func (w words) ClockWrong() string   { return w.in("heure fausse", "wrong time") }
func (w words) ToReprint(entry validate.EntryNumber) string {
	return fmt.Sprintf(w.in("Reçu à réimprimer : %s", "Slip to reprint: %s"), entry)
}
func (w words) Since(moment string) string {
	return fmt.Sprintf(w.in("depuis le %s", "since %s"), moment)
}
func (w words) BarLabel() string  { return w.in("Terminal", "Terminal") }
func (w words) LineLabel() string { return w.in("État du terminal", "State of the terminal") }
func (w words) Day() string       { return w.in("02/01/2006", "2 Jan 2006") }
func (w words) day() string       { return w.in("02/01 à 15:04", "2 Jan, 15:04") }
func (w words) dayYear() string   { return w.in("02/01/2006 à 15:04", "2 Jan 2006, 15:04") }

// The counter without a ticket.

func (w words) TypeCode() string   { return w.in("SAISIR UN CODE", "TYPE A CODE") }
func (w words) NewBatch() string   { return w.in("PLUSIEURS TICKETS", "SEVERAL TICKETS") }
func (w words) ResultSlip() string { return w.in("IMPRIMER LE BON", "PRINT THE SLIP") }
func (w words) SlipSent() string {
	return w.in("Bon envoyé à l'imprimante.", "The slip was sent to the printer.")
}
func (w words) Menu() string { return w.in("MENU", "MENU") }

// Several tickets of one customer.

func (w words) BatchWord() string { return w.in("PLUSIEURS TICKETS", "SEVERAL TICKETS") }
func (w words) BatchScan() string {
	return w.in("Scannez les tickets un par un.", "Scan the tickets one by one.")
}
func (w words) BatchTotal() string { return w.in("Total", "Total") }
func (w words) BatchPay() string   { return w.in("PAYER LE LOT", "PAY ALL") }
func (w words) BatchEnd() string   { return w.in("QUITTER LE LOT", "GIVE UP") }
func (w words) BatchDone() string  { return w.in("LOT PAYÉ", "ALL PAID") }
func (w words) BatchFull() string {
	return w.in("Lot complet : payez-le, puis rescannez ce ticket.", "The batch is full: pay it, then scan this one again.")
}
func (w words) BatchNoPay() string {
	return w.in("Rien à payer dans ce lot.", "Nothing to pay in this batch.")
}
func (w words) BatchAsk() string {
	return w.in("La caisse suffit-elle pour le lot ?", "Is there enough in the till for all?")
}

// Sheets over the counter.

func (w words) Back() string   { return w.in("RETOUR", "BACK") }
func (w words) Erase() string  { return w.in("Effacer le dernier chiffre", "Erase the last digit") }
func (w words) Enter() string  { return w.in("VALIDER", "ENTER") }
func (w words) Keypad() string { return w.in("Clavier", "Keypad") }
func (w words) Typed() string  { return w.in("Chiffres tapés", "Digits typed") }
func (w words) Before() string { return w.in("◀ PRÉCÉDENT", "◀ BEFORE") }
func (w words) After() string  { return w.in("SUIVANT ▶", "NEXT ▶") }
func (w words) PageOf(n, all int) string {
	return fmt.Sprintf(w.in("page %d sur %d", "page %d of %d"), n, all)
}
func (w words) Confirm() string { return w.in("OUI, CONFIRMER", "YES, CONFIRM") }
func (w words) NotDone() string {
	return w.in("Refusé par le terminal. Réessayez, ou appelez l'assistance.", "The terminal refused. Try again, or call support.")
}
func (w words) NothingYet() string { return w.in("Rien pour l'instant.", "Nothing yet.") }

func (w words) CodeTitle() string { return w.in("Tapez le code du ticket", "Type the ticket's code") }
func (w words) CodeHint() string {
	return w.in("Tous les chiffres sous la case grattée, sans les espaces.", "All digits below the scratched box, without the spaces.")
}
func (w words) DigitsWrong() string {
	return w.in("Ces chiffres ne conviennent pas : vérifiez-les, puis retapez.", "These digits do not fit: look again, then retype them.")
}

func (w words) History() string  { return w.in("HISTORIQUE", "HISTORY") }
func (w words) Closings() string { return w.in("CLÔTURES", "CLOSINGS") }
func (w words) Messages() string { return w.in("MESSAGES", "MESSAGES") }
func (w words) TrainOn() string  { return w.in("COMMENCER UNE FORMATION", "START TRAINING") }
func (w words) TrainOff() string { return w.in("FINIR LA FORMATION", "END TRAINING") }
func (w words) SignOn() string   { return w.in("PRISE DE SERVICE", "SIGN ON") }
func (w words) SignOff() string  { return w.in("FIN DE SERVICE", "SIGN OFF") }
func (w words) Lock() string     { return w.in("VERROUILLER", "LOCK") }
func (w words) Unlock() string   { return w.in("DÉVERROUILLER", "UNLOCK") }

func (w words) WhoSignsOn() string { return w.in("Qui prend le service ?", "Who signs on?") }
func (w words) WhoAllows() string  { return w.in("Qui autorise ?", "Who allows it?") }
func (w words) NoOperators() string {
	return w.in("Personne à choisir : voyez le technicien.", "Nobody to choose: ask the technician.")
}
func (w words) FloatTitle() string { return w.in("Fond de caisse compté", "Cash counted in the till") }
func (w words) FloatHint() string {
	return w.in("En centimes : 5000 pour 50 €. Vide : aucun fond.", "In cents: 5000 for €50. Empty: no cash.")
}
func (w words) PINTitle(who string) string {
	return fmt.Sprintf(w.in("Code secret de %s", "PIN of %s"), who)
}
func (w words) PINHint() string {
	return w.in("Personne d'autre ne doit le voir.", "Nobody else should see it.")
}

func (w words) HistoryTitle() string { return w.in("Historique du service", "History of the shift") }
func (w words) HistoryAll() string {
	return w.in("Derniers actes du terminal", "Latest acts of the terminal")
}
func (w words) HistorySum(n int64, total, cash string) string {
	return fmt.Sprintf(w.in("Payés : %d, %s. La caisse doit contenir %s.", "Paid: %d, %s. The till should hold %s."), n, total, cash)
}
func (w words) PaidAct() string    { return w.in("Payé", "Paid") }
func (w words) ReprintAct() string { return w.in("Réimprimé", "Reprinted") }
func (w words) ClosingAct() string { return w.in("Clôture", "Closing") }
func (w words) SlipTitle(number string) string {
	return fmt.Sprintf(w.in("Reçu n° %s", "Slip n° %s"), number)
}

// unbroken keeps a slip's number on one line: its dash is one after which none ends.
func unbroken(number string) string { return strings.ReplaceAll(number, "-", "\u2011") }

// An earlier payment.

func (w words) Find() string      { return w.in("AUTRE REÇU", "OTHER SLIP") }
func (w words) FindTitle() string { return w.in("Numéro du reçu", "The slip's number") }
func (w words) FindHint() string {
	return w.in("« Registre » sur le reçu, sans le tiret. Ou scannez son code, ou le ticket.", "“Ledger” on the slip, without the dash. Or scan its code, or the ticket.")
}
func (w words) FindNone() string {
	return w.in("Aucun paiement de ce terminal n'a ce numéro.", "No payment of this terminal has this number.")
}
func (w words) ShowSlip() string { return w.in("VOIR LE REÇU", "SEE THE SLIP") }
func (w words) SlipScanned() string {
	return w.in("C'est le code d'un reçu de ce terminal, pas d'un ticket.", "This is the code of a slip of this terminal, not of a ticket.")
}
func (w words) SlipScannedNext() string {
	return w.in("Voyez le reçu, ou scannez un ticket.", "See the slip, or scan a ticket.")
}

// A payment that is to be taken back.

func (w words) Reverse() string { return w.in("ANNULER CE PAIEMENT", "TAKE IT BACK") }
func (w words) ReverseAsk(amount string) string {
	return fmt.Sprintf(w.in("Pourquoi annuler %s ?", "Why take %s back?"), amount)
}
func (w words) ReverseTold() string {
	return w.in("Un responsable doit l'autoriser. Le ticket reste payé jusqu'à la réponse du centre.", "A manager must allow it. The ticket stays paid until the centre answers.")
}
func (w words) ReverseWords() string {
	return w.in("Pourquoi ? En quelques mots", "Why? In a few words")
}
func (w words) ReasonMistake() string {
	return w.in("PAYÉ PAR ERREUR", "PAID BY MISTAKE")
}
func (w words) ReasonTicket() string { return w.in("MAUVAIS TICKET", "WRONG TICKET") }
func (w words) ReasonLeft() string   { return w.in("JOUEUR PARTI", "PLAYER LEFT") }
func (w words) ReasonOther() string  { return w.in("AUTRE RAISON", "OTHER REASON") }
func (w words) ReversalAsked() string {
	return w.in("Annulation demandée", "Reversal asked for")
}
func (w words) ReversalAccepted() string { return w.in("Annulation acceptée", "Reversal accepted") }
func (w words) ReversalRefused() string  { return w.in("Annulation refusée", "Reversal refused") }
func (w words) ReversalAskedTold() string {
	return w.in("au centre. Le ticket reste payé jusqu'à sa réponse.", "at the centre. The ticket stays paid until it answers.")
}
func (w words) ReversalAcceptedTold() string {
	return w.in("par le centre : le ticket peut être payé de nouveau, en ligne.", "by the centre: the ticket can be paid again, online.")
}
func (w words) ReversalRefusedTold() string {
	return w.in("par le centre : le ticket reste payé.", "by the centre: the ticket stays paid.")
}
func (w words) CentreSays(text string) string {
	return fmt.Sprintf(w.in("Le centre écrit : %s", "The centre writes: %s"), text)
}

// Whom a big prize is paid to.

func (w words) Identify() string { return w.in("RELEVER L'IDENTITÉ", "TAKE THE IDENTITY") }
func (w words) IdentityTake() string {
	return w.in("Demandez une pièce d'identité, relevez-la, puis payez.", "Ask for an identity document, enter it, then pay.")
}
func (w words) IdentityTold() string {
	return w.in("La loi l'exige pour ce gain. Seul le centre peut la relire.", "The law asks for it. Only the centre can read it again.")
}
func (w words) IdentityCheck() string {
	return w.in("Comparez avec la pièce, puis payez", "Compare with the document, then pay")
}
func (w words) FieldDocument() string   { return w.in("Pièce présentée", "Document") }
func (w words) FieldNumber() string     { return w.in("Numéro de la pièce", "Document number") }
func (w words) FieldIssuedBy() string   { return w.in("Délivrée par", "Issued by") }
func (w words) FieldValidTo() string    { return w.in("Valable jusqu'au", "Valid to") }
func (w words) FieldSurname() string    { return w.in("Nom", "Surname") }
func (w words) FieldFirstNames() string { return w.in("Prénoms", "First names") }
func (w words) FieldBorn() string       { return w.in("Date de naissance", "Date of birth") }
func (w words) FieldBirthPlace() string { return w.in("Lieu de naissance", "Place of birth") }
func (w words) FieldAddress() string    { return w.in("Adresse", "Address") }
func (w words) IdentityCard() string    { return w.in("CARTE D'IDENTITÉ", "IDENTITY CARD") }
func (w words) Passport() string        { return w.in("PASSEPORT", "PASSPORT") }
func (w words) ResidencePermit() string { return w.in("TITRE DE SÉJOUR", "RESIDENCE PERMIT") }
func (w words) DrivingLicence() string  { return w.in("PERMIS DE CONDUIRE", "DRIVING LICENCE") }
func (w words) DateHint() string {
	return w.in("Jour, mois, année : 12051970. Jour ou mois inconnu : 00.", "Day, month, year: 12051970. Day or month unknown: 00.")
}
func (w words) EndHint() string {
	return w.in("Jour, mois, année : 31012031. Vide : sans date de fin.", "Day, month, year: 31012031. Empty: it has no end.")
}
func (w words) NoEnd() string { return w.in("sans date de fin", "no end") }
func (w words) DateWrong() string {
	return w.in("Cette date n'existe pas : jour, mois, année.", "There is no such date: day, month, year.")
}
func (w words) FieldWrong() string {
	return w.in("Il faut quelques mots ici.", "Some words are needed here.")
}
func (w words) Space() string { return w.in("Espace", "Space") }
func (w words) Linked(amount string) string {
	return fmt.Sprintf(w.in("déjà versé à cette personne : %s", "paid to the same person before: %s"), amount)
}

// A misprinted ticket that is taken in.

func (w words) Question() string    { return w.in("\u00a0?", "?") }
func (w words) RefundIt() string    { return w.in("REMBOURSER", "REFUND") }
func (w words) ExchangeIt() string  { return w.in("ÉCHANGER", "EXCHANGE") }
func (w words) RefundedAct() string { return w.in("Remboursé", "Refunded") }
func (w words) Exchanged() string   { return w.in("Échangé", "Exchanged") }
func (w words) TakeInTold() string {
	return w.in("Un responsable doit l'autoriser. Le ticket ne sera plus payé.", "A manager must allow it. The ticket is not paid any more.")
}
func (w words) KeepTicket() string { return w.in("Gardez le ticket.", "Keep the ticket.") }

// remedyOf names the act, with the price where it is known.
func (w words) remedyOf(r validate.Remedy, o validate.Opened, l money.Language) string {
	switch {
	case r == validate.Exchanged:
		return w.ExchangeIt()
	case o.Price > 0:
		return w.RefundIt() + " " + money.Text(o.Price, o.Currency, l, money.Screen)
	}
	return w.RefundIt()
}

// takenIn says what was done of a misprinted ticket.
func (w words) takenIn(m validate.Misprinted, l money.Language) string {
	switch {
	case m.Remedy == validate.Exchanged:
		return w.Exchanged()
	case m.Amount > 0:
		return w.RefundedAct() + " " + money.Text(m.Amount, m.Currency, l, money.Screen)
	}
	return w.RefundedAct()
}

// Letters are the first page of a keypad with letters, three rows of ten; < erases and * shows
// the other page.
func (w words) Letters() string {
	return w.in("AZERTYUIOPQSDFGHJKLMWXCVBN*- <", "QWERTYUIOPASDFGHJKL'ZXCVBNM* <")
}

// moreKeys are its second page, in both languages.
const moreKeys = "1234567890ÉÈÊËÀÂÄÇÎÏÔÖÙÛÜ'*- <"

func (w words) OtherKeys() string {
	return w.in("Chiffres et accents, ou lettres", "Digits and accents, or letters")
}

// What the clerk sees on the paper.

func (w words) Paper() string { return w.in("DÉFAUT\u00a0?", "FAULT?") }
func (w words) PaperTitle() string {
	return w.in("Que voyez-vous sur le ticket ?", "What do you see on the ticket?")
}
func (w words) PaperTold() string {
	return w.in("Montrez-le au joueur avant de choisir.", "Show it to the player before you choose.")
}
func (w words) PaperVoid() string {
	return w.in("« Nul si découvert » grattée", "Void box uncovered")
}
func (w words) PaperVoidMore() string {
	return w.in("avant d'arriver ici, même en partie : ticket nul.", "before it came here, even in part: the ticket is void.")
}
func (w words) PaperMisprint() string { return w.in("Mal imprimé", "Misprinted") }
func (w words) PaperMisprintMore() string {
	return w.in("chiffres ou mots absents, ou en désaccord : remboursez ou échangez.", "figures or words missing, or at odds: refund or exchange.")
}
func (w words) PaperSound() string     { return w.in("Aucun défaut", "No fault") }
func (w words) PaperSoundMore() string { return w.in("c'était une erreur.", "it was a mistake.") }

func (w words) ClosingsTitle() string {
	return w.in("Clôtures : la lecture (X) ne clôt rien", "Closings: a reading (X) ends nothing")
}
func (w words) OfShift() string  { return w.in("SERVICE", "SHIFT") }
func (w words) OfDay() string    { return w.in("JOURNÉE", "DAY") }
func (w words) OfMonth() string  { return w.in("MOIS", "MONTH") }
func (w words) OfYear() string   { return w.in("ANNÉE", "YEAR") }
func (w words) Print() string    { return w.in("IMPRIMER", "PRINT") }
func (w words) CloseIt() string  { return w.in("CLÔTURER (Z)", "CLOSE IT (Z)") }
func (w words) CloseAsk() string { return w.in("Clôturer maintenant ?", "Close now?") }
func (w words) CloseTold() string {
	return w.in("Une clôture ne s'annule pas.", "A closing cannot be undone.")
}
func (w words) SignOffAsk() string { return w.in("Finir le service ?", "End the shift?") }
func (w words) SignOffTold() string {
	return w.in("Comptez la caisse : le reçu de clôture dit ce qu'elle doit contenir.", "Count the till: the closing's slip says what it should hold.")
}
func (w words) ToPrinter() string { return w.in("Envoyé à l'imprimante.", "Sent to the printer.") }

func (w words) MessagesTitle() string { return w.in("Messages du centre", "Messages from the centre") }
func (w words) MessageRead() string   { return w.in("lu", "read") }
func (w words) MessageNew() string    { return w.in("À LIRE", "TO READ") }

func (w words) Point() string { return w.in(",", ".") }
func (w words) TrainTold() string {
	return w.in("Rien ne sera enregistré ni payé jusqu'à la fin.", "Nothing is recorded or paid until it ends.")
}
func (w words) Reading(of string) string { return fmt.Sprintf(w.in("Lecture : %s", "Reading: %s"), of) }
func (w words) ClosingN(of string, n int64) string {
	return fmt.Sprintf(w.in("Clôture : %s n° %d", "Closing: %s n° %d"), of, n)
}

func (w words) Technician() string { return w.in("TECHNICIEN", "TECHNICIAN") }
func (w words) Doctor() string     { return w.in("EXAMEN", "DOCTOR") }
func (w words) SelfTest() string   { return w.in("AUTOTEST", "SELF-TEST") }
func (w words) Addresses() string  { return w.in("ADRESSES", "ADDRESSES") }
func (w words) AtWork() string     { return w.in("En cours…", "At work…") }
func (w words) Examined(all, good, bad int) string {
	return fmt.Sprintf(w.in("%d contrôles : %d bons, %d à voir.", "%d checks: %d good, %d to look at."), all, good, bad)
}

// date writes a day that is named as 2026-12-01, and what is no day as it is.
func (w words) date(day string) string {
	t, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return day
	}
	return t.Format(w.Day())
}

// moment writes a time for people; the year stands where it is not the current one.
func (w words) moment(t, now time.Time, zone *time.Location) string {
	t, now = t.In(zone), now.In(zone)
	if t.Year() != now.Year() {
		return t.Format(w.dayYear())
	}
	return t.Format(w.day())
}

// unsent says how many claims central has not got, and their money.
func (w words) unsent(u validate.Unsent, alone bool, currency string, l money.Language, now time.Time, zone *time.Location) string {
	none, one, many := w.NoneUnsent(), w.OneUnsent(), w.Unsent
	if alone {
		none, one, many = w.Alone(), w.AloneOne(), w.AloneMany
	}
	sum := " (" + money.Text(u.Money, currency, l, money.Screen) + ")"
	if !alone && !u.Oldest.IsZero() {
		sum += " " + w.Since(w.moment(u.Oldest, now, zone))
	}
	switch u.Claims {
	case 0:
		return none
	case 1:
		return one + sum
	}
	return many(u.Claims) + sum
}

// slipState says how far the paper is, and whether another copy may be asked for.
func (w words) slipState(p validate.PrintState) (text string, again bool) {
	switch p {
	case validate.Held:
		return w.Held(), false
	case validate.Unknown:
		return w.Unknown(), true
	case validate.Sent:
		return w.Sent(), true
	case validate.Consumed:
		return w.Consumed(), true
	case validate.Printed:
		return w.Printed(), true
	}
	return w.Printing(), false
}

// reversalReason names a reason to take a payment back.
func (w words) reversalReason(r validate.ReversalReason) string {
	switch r {
	case validate.PaidByMistake:
		return w.ReasonMistake()
	case validate.WrongTicket:
		return w.ReasonTicket()
	case validate.PlayerLeft:
		return w.ReasonLeft()
	}
	return w.ReasonOther()
}

// reversalState says how far a reversal is; reversalTold what this means for the ticket.
func (w words) reversalState(s validate.ReversalState) string {
	switch s {
	case validate.ReversalAccepted:
		return w.ReversalAccepted()
	case validate.ReversalRefused:
		return w.ReversalRefused()
	}
	return w.ReversalAsked()
}

func (w words) reversalTold(s validate.ReversalState) string {
	switch s {
	case validate.ReversalAccepted:
		return w.ReversalAcceptedTold()
	case validate.ReversalRefused:
		return w.ReversalRefusedTold()
	}
	return w.ReversalAskedTold()
}

// field names a field of an identity by its place among identitySteps.
func (w words) field(step int) string {
	return []string{w.FieldDocument(), w.FieldNumber(), w.FieldIssuedBy(), w.FieldValidTo(), w.FieldSurname(), w.FieldFirstNames(), w.FieldBorn(), w.FieldBirthPlace(), w.FieldAddress()}[step]
}

// document names a kind of document.
func (w words) document(kind string) string {
	switch kind {
	case "identity-card":
		return w.IdentityCard()
	case "passport":
		return w.Passport()
	case "residence-permit":
		return w.ResidencePermit()
	}
	return w.DrivingLicence()
}

// oneLine joins a text that was broken for 32 columns; the page breaks it anew.
func oneLine(s string) string { return bound.Replace(strings.ReplaceAll(s, "\n", " ")) }
