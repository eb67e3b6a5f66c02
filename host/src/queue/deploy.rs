//! Deploying and managing tasks.
//!
//! Invariant: a version becomes current only after its component is validated, stored and compiled;
//! whatever fails before leaves everything as it was.

use wasmq_core::settings::{RawSettings, SettingsError};
use wasmq_core::{Digest, Label, Pin, TaskName, VersionNumber};

use super::{Inner, Queue, QueueError};
use crate::clock::{self, Stopwatch};
use crate::registry::{NewVersion, RegistryError, Task, Unresolved, Version};
use crate::runtime::{Accepted, Options as RuntimeOptions, Purpose, Runtime, Shape, accept};

/// What to deploy a component with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeployRequest {
    /// The settings of the version.
    pub settings: RawSettings,
    /// A word for the version.
    pub label: Option<Label>,
    /// Whether it becomes current.
    pub activate: bool,
}

/// What a deploy did.
#[derive(Debug, Clone, PartialEq)]
pub struct Deployment {
    /// The task.
    pub task: TaskName,
    /// The version, new or found.
    pub version: VersionNumber,
    /// The component that the version runs.
    pub digest: Digest,
    /// Whether the same bytes with the same settings were deployed before.
    pub unchanged: bool,
    /// Whether a version had the component already, but its file was missing or damaged.
    pub repaired: bool,
    /// Whether the version is current now.
    pub active: bool,
    /// What was current before.
    pub previous: Option<VersionNumber>,
    /// The settings that the version before has otherwise. They are not taken over from it.
    pub settings_changed: Vec<&'static str>,
    /// What kind of component it is.
    pub shape: Shape,
    /// The core module that it was made of, if the file was one.
    pub module: Option<Digest>,
    /// Its size.
    pub size_bytes: u64,
    /// How long compiling or loading took, in milliseconds.
    pub compile_ms: u64,
}

/// A typed task has its payload and metadata; nobody would ever see an argument.
pub(super) fn no_args() -> QueueError {
    let expected = "left out, because a typed task has no arguments; metadata reaches it".to_owned();
    QueueError::Settings(SettingsError { setting: "arg", found: "given".to_owned(), expected })
}

impl Queue {
    /// Deploys a component, or a core module that can be made one, under a task name. Compiling a large one
    /// takes seconds.
    ///
    /// # Errors
    /// [`QueueError::Refused`] when the file is not a task, [`QueueError::Settings`], or a failure of
    /// the store. Then the task is as before.
    pub fn deploy(&self, task: &TaskName, file: &[u8], request: &DeployRequest) -> Result<Deployment, QueueError> {
        let settings = request.settings.check()?;
        let Accepted { component, digest, shape, module } = accept(file)?;
        if shape == Shape::Typed && !settings.args.is_empty() {
            return Err(no_args());
        }
        let inner = &self.inner;
        inner.make_directories()?;
        let tasks = inner.registry.tasks()?;
        let version = tasks.get(task).zip(module).and_then(|(task, module)| task.made_of(&module, &settings));
        let earlier = version.and_then(|version| inner.whole_component(version));
        let (component, digest) = earlier.map_or((component, digest), |(bytes, digest)| (bytes.into(), digest));
        let known = tasks.has_component(&digest);
        let before = tasks.resolve(task, &Pin::Current).ok();
        let settings_changed = before.map_or_else(Vec::new, |before| settings.differences(&before.settings));
        let written = inner.registry.store_component(&component, &digest)?;
        let stopwatch = Stopwatch::start();
        let mut load = || Ok(component.to_vec());
        inner.compiler()?.prepare(digest, &mut load).map_err(|error| QueueError::Prepare(error.to_string()))?;
        let compile_ms = u64::try_from(stopwatch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let version = NewVersion { digest, settings, label: request.label.clone(), shape: shape.to_string(), module };
        let deployed = inner.registry.deploy(task, version, request.activate, clock::now())?;
        Ok(Deployment {
            task: task.clone(),
            version: deployed.number,
            digest,
            unchanged: deployed.unchanged,
            repaired: known && written,
            active: deployed.current == Some(deployed.number),
            previous: deployed.current_before,
            settings_changed,
            shape,
            module,
            size_bytes: component.len() as u64,
            compile_ms,
        })
    }

    /// All tasks, by name.
    ///
    /// # Errors
    /// When the registry cannot be read.
    pub fn tasks(&self) -> Result<Vec<Task>, QueueError> {
        Ok(self.inner.registry.tasks()?.iter().cloned().collect())
    }

    /// One task.
    ///
    /// # Errors
    /// [`QueueError::Unresolved`], or when the registry cannot be read.
    pub fn task(&self, name: &TaskName) -> Result<Task, QueueError> {
        let tasks = self.inner.registry.tasks()?;
        tasks.get(name).cloned().ok_or_else(|| self.inner.unknown_task(name))
    }

    /// Makes a version current, for all attempts that start from now on. `version` is `v2`, a label
    /// or a digest.
    ///
    /// # Errors
    /// [`QueueError::Unresolved`], or a failure of the registry.
    pub fn activate(&self, name: &TaskName, version: &str) -> Result<VersionNumber, QueueError> {
        self.inner.refuse_place()?;
        Ok(self.inner.registry.activate(name, version)?.number)
    }

    /// Removes a task from the registry. Its components and dead tasks stay; its live invocations
    /// wait until it is deployed again.
    ///
    /// # Errors
    /// [`QueueError::Unresolved`], or a failure of the registry.
    pub fn remove_task(&self, name: &TaskName) -> Result<(), QueueError> {
        self.inner.refuse_place()?;
        self.inner.registry.remove(name)?;
        Ok(())
    }
}

impl Inner {
    /// The component of a version, if its file is whole. What a later adapter makes of the same core module is
    /// another one, and that alone is no reason for a version.
    fn whole_component(&self, version: &Version) -> Option<(Vec<u8>, Digest)> {
        Some((self.registry.load_component(&version.digest).ok()?, version.digest))
    }

    pub(super) fn unknown_task(&self, name: &TaskName) -> QueueError {
        let close = self.registry.tasks().map(|tasks| tasks.close_to(name)).unwrap_or_default();
        QueueError::Unresolved(Unresolved::NoTask { name: name.clone(), close })
    }

    /// The version that a text names.
    pub(super) fn choose(&self, task: &TaskName, wanted: &str) -> Result<Version, QueueError> {
        Ok(self.registry.choose(task, wanted)?)
    }

    /// The engine of processes that only compile, made when it is first needed.
    pub(super) fn compiler(&self) -> Result<&Runtime, QueueError> {
        if self.compiler.get().is_none() {
            let options = RuntimeOptions {
                cache_dir: Some(self.layout.cache()),
                cache_for: None,
                max_concurrent: 1,
                purpose: Purpose::Once,
            };
            let runtime = Runtime::new(&options).map_err(|error| QueueError::Prepare(error.to_string()))?;
            let _ = self.compiler.set(runtime);
        }
        self.compiler.get().ok_or_else(|| QueueError::Prepare("no engine".to_owned()))
    }
}

impl From<RegistryError> for QueueError {
    fn from(error: RegistryError) -> Self {
        match error {
            RegistryError::Unresolved(unresolved) => Self::Unresolved(unresolved),
            other => Self::Registry(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wasmq_wal::disk::RealDisk;

    use super::*;
    use crate::queue::Options;
    use crate::registry::digest_of;

    /// A program for wasip1 that leaves with this code.
    fn program(code: u32) -> Vec<u8> {
        let text = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1) (func (export "_start") (call $exit (i32.const CODE))))"#;
        wat::parse_str(text.replace("CODE", &code.to_string())).unwrap()
    }

    /// A queue in which this module is deployed as what another adapter made of it.
    fn with_version_of(module: &[u8], component: &[u8], dir: &std::path::Path) -> (Queue, TaskName) {
        let queue = Queue::open_on(Arc::new(RealDisk), Options::new(dir)).unwrap();
        let (task, registry) = ("leaves".parse().unwrap(), &queue.inner.registry);
        let digest = digest_of(component);
        let version = NewVersion {
            digest,
            settings: RawSettings::default().check().unwrap(),
            label: None,
            shape: Shape::Command.to_string(),
            module: Some(digest_of(module)),
        };
        registry.store_component(component, &digest).unwrap();
        registry.deploy(&task, version, true, clock::now()).unwrap();
        (queue, task)
    }

    #[test]
    fn a_module_that_a_later_adapter_makes_otherwise_stays_the_component_that_its_version_has() {
        let dir = tempfile::tempdir().unwrap();
        let (module, earlier) = (program(65), accept(&program(66)).unwrap().component.into_owned());
        let (queue, task) = with_version_of(&module, &earlier, dir.path());
        let request = DeployRequest { activate: true, ..DeployRequest::default() };
        let again = queue.deploy(&task, &module, &request).unwrap();
        assert_eq!((again.version, again.unchanged, again.repaired), (VersionNumber::FIRST, true, false));
        assert_eq!((again.digest, again.size_bytes), (digest_of(&earlier), earlier.len() as u64));
        assert_eq!(queue.inner.registry.components().unwrap(), [again.digest], "nothing is stored that nobody runs");
    }

    #[test]
    fn a_module_whose_component_is_damaged_and_cannot_be_made_again_becomes_a_version() {
        let dir = tempfile::tempdir().unwrap();
        let (module, earlier) = (program(65), accept(&program(66)).unwrap().component.into_owned());
        let (queue, task) = with_version_of(&module, &earlier, dir.path());
        let file = queue.inner.registry.component_path(&digest_of(&earlier));
        let disk = &queue.inner.disk;
        disk.open(&file, wasmq_wal::disk::OpenMode::ReadWrite).unwrap().set_len(3).unwrap();
        let request = DeployRequest { activate: true, ..DeployRequest::default() };
        let deployed = queue.deploy(&task, &module, &request).unwrap();
        assert_eq!((deployed.version, deployed.unchanged, deployed.active), (VersionNumber::FIRST.next(), false, true));
        assert_eq!(deployed.digest, accept(&module).unwrap().digest);
        assert!(queue.deploy(&task, &module, &request).unwrap().unchanged, "and is found the next time");
    }
}
