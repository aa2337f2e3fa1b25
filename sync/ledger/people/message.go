package people

import (
	"errors"

	"grattoir/sync/ledger"
)

// Message is what people read when an act is refused.
type Message struct {
	Code       string // printed, and read out by phone
	ClerkFR    string // at most two lines of 32 columns
	ClerkEN    string
	Technician string
}

// Explain words an error of this package for the counter. An error of another kind gives
// O0: nothing was done, and a technician looks.
func Explain(err error) Message {
	for _, m := range messages() {
		if errors.Is(err, m.err) {
			return m.Message
		}
	}
	return wordless()
}

func wordless() Message {
	return Message{"O0", "Erreur interne, rien n'est fait.\nAppelez l'assistance.", "Internal error, nothing was\ndone. Call support.", "An error with no words of its own: see the log."}
}

// Named is the error that a message's code stands for, nil for O0 and what is no code:
// for those who hear of an error over the daemon's socket.
func Named(code string) error {
	for _, m := range messages() {
		if m.Code == code {
			return m.err
		}
	}
	return nil
}

// Messages are all of them in the order of their codes, for the technician's guide.
func Messages() []Message {
	all := []Message{wordless()}
	for _, m := range messages() {
		all = append(all, m.Message)
	}
	return all
}

type explained struct {
	err error
	Message
}

// messages are in the order in which they win, for errors that are several things at once.
func messages() []explained {
	return []explained{
		{ErrNotWritable, Message{"O1", "Le terminal ne peut pas\nenregistrer. Appelez l'aide.", "The terminal cannot record.\nCall support.",
			"people.db or register.db cannot commit: disk full, read-only or damaged. No PIN is answered until it can."}},
		{ErrDamaged, Message{"O2", "Fichier abîmé. Appelez\nl'assistance.", "A file is damaged. Call\nsupport.",
			"people.db or register.db failed its check: put it back from its copy."}},
		{ledger.ErrMode, Message{"O3", "Fichier mal protégé. Appelez\nl'assistance.", "A file is not protected. Call\nsupport.",
			"A file of operators or identities is open to others than its owner: find out why, then chmod 600."}},
		{ErrInUse, Message{"O4", "Fichier déjà utilisé. Appelez\nl'assistance.", "A file is in use. Call\nsupport.",
			"Two processes want people.db or register.db: one terminald only."}},
		{ErrLockedOut, Message{"O5", "Trop de codes faux : bloqué.\nAppelez votre responsable.", "Too many wrong PINs: locked.\nCall your manager.",
			"10 wrong PINs of this operator. A manager unlocks a clerk, a technician a manager: terminalctl operator unlock."}},
		{ErrTerminalLocked, Message{"O6", "Terminal bloqué : code d'un\nresponsable nécessaire.", "Terminal locked: a manager's\nPIN is needed.",
			"10 wrong PINs at this terminal with no right one between. The right PIN of a manager or technician ends it."}},
		{ErrWait, Message{"O7", "Codes faux : attendez avant de\nréessayer.", "Wrong PINs: wait before you\ntry again.",
			"The delay after wrong PINs is running, for the operator or for the terminal. A restart begins it anew."}},
		{ErrWrong, Message{"O8", "Numéro ou code faux.\nRecommencez.", "Wrong number or PIN.\nTry again.",
			"Operator and PIN do not belong together. The try was counted before it was looked at."}},
		{ErrSuspended, Message{"O9", "Vous êtes suspendu. Appelez\nvotre responsable.", "You are suspended. Call your\nmanager.",
			"The operator was suspended: terminalctl operator resume."}},
		{ErrRole, Message{"O10", "Votre fonction ne permet pas\ncela.", "Your role does not allow this.", "The operator's role is not one that may do this act."}},
		{ErrOwner, Message{"O11", "Un responsable peut le faire\navec son code.", "A manager can do this with a\nPIN.",
			"The machine's owner acts only where no operator could: use --by."}},
		{ErrSignedOn, Message{"O12", "Quelqu'un est déjà connecté.\nFermez d'abord sa session.", "Somebody is signed on. End\ntheir session first.",
			"One session at a time. Its operator signs off, or a manager ends it."}},
		{ErrSessionLocked, Message{"O13", "Guichet verrouillé. Tapez votre\ncode.", "The counter is locked. Type\nyour PIN.",
			"The counter locked by itself or after a restart. The PIN of whoever is signed on opens it."}},
		{ErrNobody, Message{"O14", "Personne n'est connecté.\nIdentifiez-vous.", "Nobody is signed on.\nSign on first.", "No session is open."}},
		{ErrWeakPIN, Message{"O15", "Code trop simple. Choisissez un\nautre code.", "This PIN is too easy. Choose\nanother one.",
			"The PIN is a repetition, a sequence, the operator's own number or the one in use."}},
		{ErrPIN, Message{"O16", "Le code a 4 à 8 chiffres.", "A PIN has 4 to 8 digits.", "What was typed is no PIN. No try was counted."}},
		{ErrExists, Message{"O17", "Cet opérateur existe déjà.", "This operator exists already.", "Operator ids are used once."}},
		{ErrUnknown, Message{"O18", "Opérateur inconnu.", "No such operator.", "The id names no operator of this terminal: terminalctl operator list."}},
		{ErrOperator, Message{"O19", "Opérateur mal décrit : numéro,\nnom ou fonction.", "Operator not well described:\nid, name or role.", "See the error for the field."}},
		{ErrNoRegisterKey, Message{"I1", "Ne payez pas : identité non\nenregistrable ici.", "Do not pay: identity cannot be\nrecorded here.",
			"No register key is configured. Without it nothing is recorded, and what needs an identity is not paid."}},
		{ErrIdentity, Message{"I2", "Identité incomplète. Vérifiez la\npièce, ne payez pas encore.", "Identity not complete. Check the\ndocument, do not pay yet.",
			"A field that the arrêté of 9 September 2021 asks for is missing or cannot be: the error names it."}},
		{ErrLinkKey, Message{"I3", "Registre bloqué. Appelez\nl'assistance.", "Register blocked. Call\nsupport.",
			"register.db.key is gone or another one: put it back from its copy, or open the register with a new one."}},
		{ErrSealed, Message{"I4", "Identité illisible.", "Identity cannot be read.", "The sealed bytes were changed, or sealed for another key, record or terminal."}},
		{ErrUnsent, Message{"I5", "Identités non transmises.\nAppelez l'assistance.", "Identities not sent.\nCall support.",
			"Central has not taken identities for days: see the identities lane of the link."}},
		{ErrUnsentTerm, Message{"I6", "Identités non envoyées, bientôt\neffacées. Appelez l'assistance.", "Identities not sent, soon\nerased. Call support.",
			"Identities are beyond their legal term and central never took them: after the grace they are erased unread. Make the link work now."}},
	}
}
