//! The loop of `wasmq dev`: a change, a build, a trial, and again.
//!
//! Invariants: one thread decides, on events alone; at most one build runs, and what it and the task started is
//! gone when the loop ends, however it ends. News of a round that was overtaken changes nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use wasmq_core::settings::RawSettings;

use super::alarm::{Alarm, Watched};
use super::build::Build;
use super::error::DevError;
use super::event::Event;
use super::habits::{Habits, Sifted, Span};
use super::project::Project;
use super::show::{self, Round};
use super::tree::{Change, Scope, Tree};
use super::trial::{Ended, Request, Trial};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::input::Source;
use crate::cli::output::Output;
use crate::clock::{self, Stopwatch};
use crate::queue::{Completion, Queue};

/// How long a task that was stopped may take to end, when the loop does.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long after it was found empty a file is looked at again.
const SETTLING: Duration = Duration::from_millis(200);
/// How often what is gone is looked for: whoever puts it back may tell nobody.
const RETURN: Duration = Duration::from_millis(500);

/// What to develop, and how.
#[derive(Debug)]
pub struct Plan {
    /// The folder of the project, as the system sees it.
    pub folder: PathBuf,
    /// The data directory, by an absolute path.
    pub data: PathBuf,
    /// What the reader calls it.
    pub data_name: PathBuf,
    /// How many of the latest versions stay in it; all of them when absent.
    pub keep: Option<usize>,
    /// The payload, over that of the project.
    pub payload: Option<Source>,
    /// The largest payload, in bytes.
    pub payload_limit: u64,
    /// The limits of an attempt.
    pub settings: RawSettings,
    /// Whether to end after one round.
    pub once: bool,
    /// The command that lists dead tasks; absent when none are kept.
    pub dlq: Option<String>,
}

impl Plan {
    fn scope(&self, project: &Project) -> Scope {
        let payload = match &self.payload {
            Some(Source::File(path)) => Some(path.as_path()),
            _ => None,
        };
        Scope::new(&self.folder, project, payload, &self.data)
    }

    /// An error in other words, where it comes of something that is gone: the folder, or what was watched in it.
    fn or_gone(&self, error: DevError, was_watched: bool) -> DevError {
        match error {
            DevError::NoProject { .. } | DevError::Read { .. } | DevError::Watch { .. } if !self.folder.is_dir() => {
                DevError::Gone { path: self.folder.clone(), is_named: false }
            }
            DevError::Watch { path, source } if was_watched && source.kind() == io::ErrorKind::NotFound => {
                DevError::Gone { path, is_named: true }
            }
            other => other,
        }
    }

    fn payload(&self, project: &Project) -> Source {
        let of_project = || project.payload.clone().map_or_else(|| Source::Text(Vec::new()), Source::File);
        self.payload.clone().unwrap_or_else(of_project)
    }
}

/// What happens in the current round.
#[derive(Debug)]
enum Stage {
    /// Nothing; the next change starts another.
    Idle,
    /// The build, since then.
    Building(Build, Stopwatch),
    /// The trial.
    Trying,
}

/// Rounds, one after the other.
#[derive(Debug)]
pub struct Rounds<'a> {
    plan: Plan,
    queue: Queue,
    out: &'a mut Output,
    events: Sender<Event>,
    inbox: Receiver<Event>,
    project: Project,
    scope: Scope,
    tree: Tree,
    /// Absent when one round is all there is.
    alarm: Option<Alarm>,
    habits: Habits,
    /// When the latest build ran.
    span: Option<Span>,
    stage: Stage,
    round: Round,
    /// The latest trial. Its thread may still run.
    trial: Option<Trial>,
    /// What cannot be looked at.
    trouble: Option<Trouble>,
    /// What a round that could not begin for that was to be started for.
    owed: Option<Vec<String>>,
}

/// Something that cannot be looked at, and has been told of.
#[derive(Debug)]
struct Trouble {
    place: PathBuf,
    /// Whether it may pass without anything moving in what is watched.
    may_pass: bool,
}

impl<'a> Rounds<'a> {
    /// Reads the project and begins to watch.
    ///
    /// # Errors
    /// When the project file is wrong, or what it names cannot be watched.
    pub fn new(plan: Plan, queue: Queue, out: &'a mut Output) -> Result<Self, CliError> {
        let (events, inbox) = channel();
        let project = Project::read(&plan.folder)?;
        let alarm = if plan.once { None } else { Some(Alarm::new(&events)?) };
        let mut rounds = Self {
            scope: plan.scope(&project),
            plan,
            queue,
            out,
            events,
            inbox,
            project,
            tree: Tree::default(),
            alarm,
            habits: Habits::default(),
            span: None,
            stage: Stage::Idle,
            round: Round::default(),
            trial: None,
            trouble: None,
            owed: None,
        };
        rounds.look()?;
        Ok(rounds)
    }

    /// Where signals and everything else is told.
    #[must_use]
    pub fn events(&self) -> Sender<Event> {
        self.events.clone()
    }

    /// Goes on until a signal comes, or for one round.
    ///
    /// # Errors
    /// When stdout cannot be written; of one round also why it came to no attempt.
    pub fn run(&mut self) -> Result<Exit, CliError> {
        if !self.plan.once {
            show::greeting(self.out, &self.plan.folder, &self.plan.data_name);
        }
        let result = self.go_on();
        self.stop();
        result
    }

    fn go_on(&mut self) -> Result<Exit, CliError> {
        self.begin(Vec::new())?;
        loop {
            let event = self.next_event();
            let current = self.round.number;
            match event {
                Event::Signal if self.plan.once => return Err(DevError::Interrupted.into()),
                Event::Signal => return Ok(Exit::Ok),
                Event::Stirred => self.stirred()?,
                Event::Built(round) if round == current => self.built()?,
                Event::Deployed(round, deployed) if round == current => {
                    show::deployed(self.out, &deployed);
                    self.round.deployed = Some(*deployed);
                }
                Event::Tried(round, ended) if round == current => {
                    if let Some(exit) = self.tried(*ended)? {
                        return Ok(exit);
                    }
                }
                Event::Untidy(error) => show::untidy(self.out, &error.describe()),
                Event::Built(_) | Event::Deployed(..) | Event::Tried(..) => {}
            }
        }
    }

    /// The next thing that happens; another look when the last one saw nothing, or what may be half of something.
    fn next_event(&self) -> Event {
        let again = match &self.trouble {
            Some(trouble) => trouble.may_pass.then_some(RETURN),
            None => (!self.tree.is_settled()).then_some(SETTLING),
        };
        match again {
            Some(again) => self.inbox.recv_timeout(again).unwrap_or(Event::Stirred),
            // It holds a sender itself, so there always is one.
            None => self.inbox.recv().unwrap_or(Event::Signal),
        }
    }

    /// Something moved. Most of that is nothing.
    fn stirred(&mut self) -> Result<(), CliError> {
        let changes = match self.look_by_project() {
            Ok(changes) => changes,
            Err(error) => return self.cannot_look(error),
        };
        let Sifted { wanted, recognised } = self.habits.sift(changes, self.span);
        if !recognised.is_empty() {
            let names: Vec<String> = recognised.iter().map(|path| self.scope.name(path)).collect();
            show::recognised(self.out, &names);
        }
        let back = self.trouble.take();
        let owed = self.owed.take();
        if wanted.is_empty() && owed.is_none() {
            back.iter().for_each(|trouble| show::back(self.out, &trouble.place.display().to_string()));
            return Ok(());
        }
        let mut names: BTreeSet<String> = wanted.iter().map(|change| self.scope.name(&change.path)).collect();
        names.extend(owed.into_iter().flatten());
        self.overtake()?;
        self.begin(names.into_iter().collect())
    }

    /// Looks; where that fails, as the project file says by now, which may name something else.
    fn look_by_project(&mut self) -> Result<Vec<Change>, DevError> {
        let error = match self.look() {
            Err(error) => error,
            seen => return seen,
        };
        let Ok(project) = Project::read(&self.plan.folder) else { return Err(error) };
        let scope = self.plan.scope(&project);
        if scope == self.scope {
            return Err(error);
        }
        self.scope = scope;
        self.look()
    }

    /// What is gone is waited for, and told of once.
    fn cannot_look(&mut self, error: DevError) -> Result<(), CliError> {
        let error = self.plan.or_gone(error, true);
        if !self.remember(&error) {
            return Ok(());
        }
        let description = CliError::from(error).describe();
        show::failed_round(self.out, &self.round, &description)?;
        show::failed(self.out, &description);
        Ok(())
    }

    /// Remembers what cannot be looked at; returns whether that is news.
    fn remember(&mut self, error: &DevError) -> bool {
        let Some(place) = error.place() else { return true };
        let is_news = self.trouble.as_ref().is_none_or(|trouble| trouble.place != place);
        let may_pass = !matches!(error, DevError::TooManyFiles { .. });
        self.trouble = Some(Trouble { place: place.to_owned(), may_pass });
        is_news
    }

    fn look(&mut self) -> Result<Vec<Change>, DevError> {
        let Some(alarm) = &mut self.alarm else { return Ok(Vec::new()) };
        let mut changes = self.tree.look(&self.scope)?;
        loop {
            match alarm.watch(self.tree.folders())? {
                Watched::AsBefore => return Ok(changes),
                Watched::ByPolling => {
                    show::polls(self.out);
                    return Ok(changes);
                }
                // What was written there before it was watched has told nobody.
                Watched::More => changes.extend(self.tree.look(&self.scope)?),
            }
        }
    }

    /// Ends the current round for the sake of the next.
    fn overtake(&mut self) -> Result<(), CliError> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => return Ok(()),
            Stage::Building(build, _) => build.stop(),
            Stage::Trying => self.trial.iter().for_each(Trial::stop),
        }
        show::restarted(self.out, &self.round)
    }

    /// Starts a round with its build.
    fn begin(&mut self, changed: Vec<String>) -> Result<(), CliError> {
        self.round = Round { number: self.round.number + 1, changed, ..Round::default() };
        if let Err(error) = self.prepare() {
            return self.cannot_begin(error);
        }
        show::begin(self.out, &self.round, &self.project.build);
        self.span = Some(Span { started_at: clock::now(), ended_at: None });
        match Build::start(&self.project.build, &self.plan.folder, self.round.number, &self.events) {
            Ok(build) => self.stage = Stage::Building(build, Stopwatch::start()),
            Err(error) => return self.failed(error.into()),
        }
        Ok(())
    }

    /// A round for which something is missing begins when that is there.
    fn cannot_begin(&mut self, error: DevError) -> Result<(), CliError> {
        let error = self.plan.or_gone(error, false);
        self.remember(&error);
        self.owed = error.place().map(|_| self.round.changed.clone());
        self.failed(error.into())
    }

    /// Goes on in a new store when somebody has removed the old one.
    fn renew_queue(&mut self) -> Result<(), CliError> {
        if let Some(queue) = self.queue.renewed()? {
            self.queue = queue;
            show::made_anew(self.out, &self.plan.data_name);
        }
        Ok(())
    }

    /// Takes up what the project file says now.
    fn prepare(&mut self) -> Result<(), DevError> {
        self.project = Project::read(&self.plan.folder)?;
        let scope = self.plan.scope(&self.project);
        if scope != self.scope {
            self.scope = scope;
            // What comes into view only now is what the build finds.
            self.look()?;
        }
        Ok(())
    }

    fn built(&mut self) -> Result<(), CliError> {
        let stage = std::mem::replace(&mut self.stage, Stage::Idle);
        let Stage::Building(build, since) = stage else { return Ok(()) };
        self.round.build = Some(since.elapsed());
        let result = build.collect();
        self.span = self.span.map(|span| Span { ended_at: Some(clock::now()), ..span });
        if let Err(error) = result {
            return self.failed(error.into());
        }
        show::built(self.out, &self.round);
        if let Err(error) = self.renew_queue() {
            return self.failed(error);
        }
        let request = Request {
            round: self.round.number,
            task: self.project.task.clone(),
            component: self.project.component.clone(),
            settings: self.plan.settings.clone(),
            payload: self.plan.payload(&self.project),
            payload_of_project: self.plan.payload.is_none(),
            payload_limit: self.plan.payload_limit,
            keep: self.plan.keep,
        };
        match Trial::start(request, &self.queue, self.trial.take(), &self.events) {
            Ok(trial) => {
                self.trial = Some(trial);
                self.stage = Stage::Trying;
                Ok(())
            }
            Err(error) => self.failed(error.into()),
        }
    }

    /// Shows how the trial ended. Returns how to leave, when one round is all there is.
    fn tried(&mut self, ended: Ended) -> Result<Option<Exit>, CliError> {
        self.stage = Stage::Idle;
        match ended {
            Ended::Stopped => Ok(None),
            Ended::Failed(error) => self.failed(error).map(|()| None),
            Ended::Ran(completion) => self.ran(&completion),
        }
    }

    fn ran(&mut self, completion: &Completion) -> Result<Option<Exit>, CliError> {
        show::ran(self.out, &self.round, completion, self.plan.dlq.as_deref())?;
        if self.plan.once {
            return Ok(Some(Exit::of_verdict(&completion.verdict)));
        }
        show::waiting(self.out);
        Ok(None)
    }

    /// The round came to no attempt. Of one round that is how it ends; otherwise the next change may mend it.
    fn failed(&mut self, error: CliError) -> Result<(), CliError> {
        self.stage = Stage::Idle;
        let description = error.describe();
        show::failed_round(self.out, &self.round, &description)?;
        if self.plan.once {
            return Err(error);
        }
        show::failed(self.out, &description);
        Ok(())
    }

    /// Ends what runs.
    fn stop(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Idle);
        match stage {
            Stage::Idle => {}
            Stage::Building(build, _) => build.stop(),
            Stage::Trying => {
                self.trial.iter().for_each(Trial::stop);
                self.wait_for_trial();
            }
        }
    }

    /// Waits until the task that was stopped is out of the log; a second signal, and a compilation, are not
    /// waited for.
    fn wait_for_trial(&self) {
        let since = Stopwatch::start();
        while let Some(left) = FAREWELL.checked_sub(since.elapsed()) {
            match self.inbox.recv_timeout(left) {
                Ok(Event::Tried(round, _)) if round == self.round.number => return,
                Ok(Event::Signal) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}
