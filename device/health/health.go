// Package health words the conditions of the terminal itself that are no device's: why
// its ledger takes no payment, what is wrong with its clock and with its limits. Each has a code that is
// read out by phone, two lines for the clerk, and a technician's twin. It finds nothing
// out by itself: who does asks for the words. Start at Ledger, Clock and Limits.
package health

import (
	"grattoir/device/terminal"
)

// Class names a condition, as those who find it do.
type Class string

// What keeps a ledger from taking payments; the names are sync/ledger's.
const (
	LedgerFull     Class = "full"
	LedgerReadOnly Class = "read-only"
	LedgerDamaged  Class = "damaged"
	LedgerDoubt    Class = "doubt"
	LedgerGone     Class = "gone"
	LedgerDisk     Class = "disk"
	LedgerAudit    Class = "audit"
	LedgerTraining Class = "training"
)

// What is wrong with the clock. None of it stops payments: the device's time is a hint on
// slips and in entries, and nothing is decided by it.
const (
	ClockBehind  Class = "behind"
	ClockAhead   Class = "ahead"
	ClockStepped Class = "stepped"
)

// What is wrong with the signed policies. Only the first one stops payments.
const (
	LimitsOver   Class = "over"   // those that have begun are over
	LimitsRefuse Class = "refuse" // a file of one cannot be used; what was in force stays
)

var ledgers = map[Class]terminal.Fault{
	LedgerFull: {Code: "L1", ClerkFR: "Disque plein : aucun paiement.\nAppelez l'assistance.", ClerkEN: "Disk full: no payments.\nCall support.",
		Technician: "free space on the ledger's disk; paying goes on by itself when the reserve is free, after a start on a full disk only when terminald is restarted"},
	LedgerReadOnly: {Code: "L2", ClerkFR: "Disque bloqué : aucun paiement.\nAppelez l'assistance.", ClerkEN: "Disk is read-only: no payments.\nCall support.",
		Technician: "the ledger cannot be written: look in dmesg for errors of the card, which make its file system read-only, and at the owner of the data folder; then restart terminald"},
	LedgerDamaged: {Code: "L3", ClerkFR: "Registre abîmé, aucun paiement.\nAppelez l'assistance.", ClerkEN: "Ledger damaged: no payments.\nCall support.",
		Technician: "the ledger's file is damaged: delete nothing, stop terminald, copy ledger.db with its -wal, run terminalctl journal verify on the copy, replace the card; central has what was sent"},
	LedgerDoubt: {Code: "L4", ClerkFR: "Dernier paiement incertain.\nRedémarrez le terminal.", ClerkEN: "Last payment is uncertain.\nRestart the terminal.",
		Technician: "a commit ended in an error and only a start can tell what reached the disk: restart terminald; when it comes again, replace the card"},
	LedgerGone: {Code: "L5", ClerkFR: "Registre perdu, aucun paiement.\nAppelez l'assistance.", ClerkEN: "Ledger missing: no payments.\nCall support.",
		Technician: "the ledger's file is away or empty, though this terminal had one: put it back from its card or copy, then restart terminald; a new one would pay every paid ticket again"},
	LedgerDisk: {Code: "L6", ClerkFR: "Disque cassé : aucun paiement.\nAppelez l'assistance.", ClerkEN: "Disk failure: no payments.\nCall support.",
		Technician: "the ledger's disk fails: look in dmesg, copy ledger.db with its -wal while it can be read, replace the card"},
	LedgerAudit: {Code: "L7", ClerkFR: "Contrôle du registre.\nPatientez pour payer.", ClerkEN: "Checking the ledger.\nPlease wait before paying.",
		Technician: "after a start nothing is paid before every claim was found in the ledger; it takes seconds for a year of payments"},
	LedgerTraining: {Code: "L8", ClerkFR: "Formation en cours.\nAucun paiement.", ClerkEN: "Training is on.\nNothing is paid.",
		Technician: "training was begun at this terminal and is on until it is ended there"},
}

var clocks = map[Class]terminal.Fault{
	ClockBehind: {Code: "H1", ClerkFR: "Horloge en retard : date fausse\nsur les reçus. Payez comme avant", ClerkEN: "Clock is behind: slips show a\nwrong date. Pay as usual.",
		Technician: "the clock shows a time that is over: set it, look at the battery of the clock chip and at the network's time; payments go on, entries keep their order"},
	ClockAhead: {Code: "H2", ClerkFR: "Horloge en avance : date fausse\nsur les reçus. Payez comme avant", ClerkEN: "Clock is ahead: slips show a\nwrong date. Pay as usual.",
		Technician: "the clock shows a time that cannot be yet: set it, look at the battery of the clock chip; payments go on, nothing is taken for expired by this clock"},
	ClockStepped: {Code: "H3", ClerkFR: "L'heure a reculé : voir les\nreçus. Payez normalement.", ClerkEN: "The clock was set back: look at\nthe slips. Pay as usual.",
		Technician: "the clock went back while the program ran: times on slips overlap, the order of entries does not; shown until the next start or until central's time confirms the clock"},
}

var limits = map[Class]terminal.Fault{
	LimitsOver: {Code: "R1", ClerkFR: "Règles périmées, aucun paiement.\nAppelez l'assistance.", ClerkEN: "Rules have expired: no payments.\nCall support.",
		Technician: "every signed policy that has begun is over, so nothing is paid: bring a newer one (terminalctl policy import)"},
	LimitsRefuse: {Code: "R2", ClerkFR: "Nouvelles règles refusées.\nPrévenez l'assistance.", ClerkEN: "New rules were not accepted.\nTell support.",
		Technician: "a file in the policies folder cannot be used, what was in force stays: see terminalctl status, bring the file again or take it away"},
}

// Ledger words why nothing is paid, with what exactly was found for the technician. A
// class that has no words gets the disk's.
func Ledger(c Class, found error) *terminal.Fault {
	f, known := ledgers[c]
	if !known {
		f = ledgers[LedgerDisk]
	}
	if found != nil {
		f.Technician += " (" + found.Error() + ")"
	}
	return &f
}

// Clock words what is wrong with the clock, nil for a class without words.
func Clock(c Class, found string) *terminal.Fault {
	f, known := clocks[c]
	if !known {
		return nil
	}
	f.Technician += " (" + found + ")"
	return &f
}

// Limits words what is wrong with the signed policies, nil for a class without words.
func Limits(c Class, found string) *terminal.Fault {
	f, known := limits[c]
	if !known {
		return nil
	}
	f.Technician += " (" + found + ")"
	return &f
}

// Conditions are all of them by class, for the technician's guide and for tests.
func Conditions() map[Class]terminal.Fault {
	all := make(map[Class]terminal.Fault, len(ledgers)+len(clocks)+len(limits))
	for _, part := range []map[Class]terminal.Fault{ledgers, clocks, limits} {
		for c, f := range part {
			all[c] = f
		}
	}
	return all
}
